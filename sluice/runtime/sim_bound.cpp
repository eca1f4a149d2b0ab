#include "sluice/runtime/sim_bound.h"

#include <algorithm>
#include <vector>

#include "sluice/device/kernel_table.h"

namespace sluice::runtime {
namespace {

/// A kernel with its time and how often a round runs it.
struct TimedCall {
  const device::KernelCall* call;
  std::int64_t ticks = 0;
  std::int64_t times = 1;
  std::int64_t before = 0;  ///< ticks that must have passed before it can start
};

std::vector<TimedCall> timedCalls(const program::Program& program,
                                  std::span<const device::CostModel* const> models) {
  std::vector<TimedCall> calls;
  for (const program::Segment& segment : program.segments) {
    if (segment.kind == parallel::SegmentKind::Pack) {
      continue;
    }
    const auto device = static_cast<std::size_t>(segment.device);
    const device::CostModel& model = *models[std::min(device, models.size() - 1)];
    const std::int64_t times = segment.oncePerRound() ? 1 : program.microBatchesPerRound;
    for (const device::KernelCall& call : segment.calls) {
      const bool isMoved = call.def == &device::kReorder;
      calls.push_back({&call, isMoved ? 0 : model.kernelTicks(call), times});
    }
  }
  return calls;
}

/// By buffer: ticks before it holds its newest value, or those that follow its value. Only reads
/// count. A buffer that holds several values in turn holds those that were written last.
class BufferTimes {
 public:
  explicit BufferTimes(std::size_t buffers) : ticks_(buffers, 0) {}

  std::int64_t longest(const std::vector<std::int32_t>& buffers) const {
    std::int64_t most = 0;
    for (const std::int32_t b : buffers) {
      most = b < 0 ? most : std::max(most, ticks_[static_cast<std::size_t>(b)]);
    }
    return most;
  }
  void set(const std::vector<std::int32_t>& buffers, std::int64_t ticks) {
    for (const std::int32_t b : buffers) {
      if (b >= 0) {
        ticks_[static_cast<std::size_t>(b)] = ticks;
      }
    }
  }
  void raise(const std::vector<std::int32_t>& buffers, std::int64_t ticks) {
    for (const std::int32_t b : buffers) {
      if (b >= 0) {
        std::int64_t& known = ticks_[static_cast<std::size_t>(b)];
        known = std::max(known, ticks);
      }
    }
  }

 private:
  std::vector<std::int64_t> ticks_;
};

}  // namespace

SimBound boundOf(const program::Program& program,
                 std::span<const device::CostModel* const> models) {
  SimBound bound;
  std::vector<TimedCall> calls = timedCalls(program, models);
  BufferTimes made(program.buffers.size());
  for (TimedCall& each : calls) {
    bound.work += each.ticks * each.times;
    each.before = made.longest(each.call->inputs);
    made.set(each.call->outputs, each.before + each.ticks);
  }
  BufferTimes follows(program.buffers.size());
  std::ranges::reverse(calls);
  for (const TimedCall& each : calls) {
    const std::int64_t after = follows.longest(each.call->outputs);
    bound.chain = std::max(bound.chain, each.before + each.ticks * each.times + after);
    follows.set(each.call->outputs, 0);
    follows.raise(each.call->inputs, each.ticks + after);
  }
  return bound;
}

}  // namespace sluice::runtime
