#include "sluice/runtime/kernel_times.h"

#include <algorithm>
#include <set>

#include "sluice/base/error.h"
#include "sluice/device/memory.h"
#include "sluice/runtime/prepared_segment.h"

namespace sluice::runtime {
namespace {

/// The arenas of one device, and where its buffers are in them.
class Arena {
 public:
  Arena(const program::Program& p, std::int32_t device, device::Device& on)
      : program_(p),
        state_(on.allocate(p.devices[static_cast<std::size_t>(device)].stateBytes)),
        transient_(on.allocate(p.devices[static_cast<std::size_t>(device)].transientBytes)),
        queue_(on.makeQueue()) {
    first_.resize(p.buffers.size());
    for (std::size_t b = 0; b < p.buffers.size(); ++b) {
      const program::Buffer& buffer = p.buffers[b];
      if (buffer.device == device) {
        first_[b] = buffer.region == program::Region::State ? state_->at(buffer.offset)
                                                            : transient_->at(buffer.offset);
      }
    }
    addresses_ = first_;
  }

  device::Queue& queue() { return *queue_; }
  std::span<const device::Address> addresses() const { return addresses_; }

  /// From here on, buffers are those of the n-th micro-batch.
  void goTo(int microBatch) {
    for (std::size_t b = 0; b < addresses_.size(); ++b) {
      const program::Buffer& buffer = program_.buffers[b];
      if (buffer.slots > 1) {
        addresses_[b] =
            first_[b] + static_cast<std::size_t>(microBatch % buffer.slots) * buffer.slotStride();
      }
    }
  }

  void fill(std::int32_t buffer, std::byte value) {
    const auto b = static_cast<std::size_t>(buffer);
    queue_->fill(first_[b], value, program_.buffers[b].totalBytes());
  }

 private:
  const program::Program& program_;
  std::unique_ptr<device::Memory> state_;
  std::unique_ptr<device::Memory> transient_;
  std::unique_ptr<device::Queue> queue_;
  std::vector<device::Address> first_;  ///< of the first slots
  std::vector<device::Address> addresses_;
};

/// What no kernel of the segment makes gets numbers that every kernel accepts: small floats, and 0
/// as an index.
void fillOperands(const program::Segment& segment, Arena& arena) {
  std::set<std::int32_t> known;
  for (const device::KernelCall& call : segment.calls) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const std::int32_t buffer = call.inputs[i];
      if (buffer >= 0 && known.insert(buffer).second) {
        arena.fill(buffer, isFloat(call.inputTypes[i].dtype) ? std::byte{0x3C} : std::byte{0});
      }
    }
    known.insert(call.outputs.begin(), call.outputs.end());
  }
  arena.queue().finish();
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Of each kernel of a segment, the median of its runs.
std::vector<double> secondsOf(const program::Segment& segment,
                              Arena& arena,
                              device::Device& device,
                              int runs,
                              device::Clock clock) {
  fillOperands(segment, arena);
  std::vector<PreparedSegment> kernels;
  for (const device::KernelCall& call : segment.calls) {
    kernels.emplace_back(device, std::span(&call, 1));
  }
  std::vector<std::vector<double>> times(kernels.size());
  for (int run = -1; run < runs; ++run) {  // the first one warms up
    arena.goTo(run + 1);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const std::int64_t start = clock();
      kernels[k].run(arena.queue(), arena.addresses(), {});
      arena.queue().finish();
      if (run >= 0) {
        times[k].push_back(static_cast<double>(clock() - start) * 1e-9);
      }
    }
  }
  std::vector<double> medians;
  medians.reserve(times.size());
  for (std::vector<double>& each : times) {
    medians.push_back(median(each));
  }
  return medians;
}

}  // namespace

std::vector<KernelTime> measureKernels(const program::Program& program,
                                       std::span<device::Device* const> devices,
                                       int runs,
                                       device::Clock clock) {
  if (devices.size() < program.devices.size() || runs < 1) {
    raise<InvalidArgument>("measureKernels: expected {} devices and at least 1 run, got {} and {}",
                           program.devices.size(),
                           devices.size(),
                           runs);
  }
  std::vector<KernelTime> all;
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    Arena arena(program, static_cast<std::int32_t>(d), *devices[d]);
    for (const program::Segment& segment : program.segments) {
      if (segment.device != static_cast<std::int32_t>(d)) {
        continue;
      }
      const std::vector<double> times = secondsOf(segment, arena, *devices[d], runs, clock);
      for (std::size_t k = 0; k < times.size(); ++k) {
        all.push_back({&segment.calls[k], times[k]});
      }
    }
  }
  return all;
}

}  // namespace sluice::runtime
