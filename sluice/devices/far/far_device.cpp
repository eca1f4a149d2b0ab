#include "sluice/devices/far/far_device.h"

#include <bit>
#include <mutex>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/far/far_memory.h"
#include "sluice/devices/far/far_queue.h"
#include "sluice/devices/far/order_check.h"
#include "sluice/ops/fused.h"

namespace sluice::devices::far {
namespace {

/// Host ops have no kernels of their own on the CPU, only references, which come later.
std::vector<device::KernelEntry> tableEntries(bool fuses) {
  std::vector<device::KernelEntry> entries = cpu::tableEntries();
  entries.insert(entries.begin(), device::kHostOps);
  if (!fuses) {
    std::erase_if(entries, [](const device::KernelEntry& entry) {
      return entry.op == ops::kFused.name ||
             entry.implementation == cpu::kReferenceEntry.implementation;
    });
    entries.push_back({.op = device::kAnyOp,
                       .implementation = cpu::kReferenceEntry.implementation,
                       .supports = [](const ir::OpView& op) {
                         return &op.def != &ops::kFused && cpu::kReferenceEntry.supports(op);
                       }});
  }
  return entries;
}

class FarDevice final : public device::Device {
 public:
  explicit FarDevice(const FarDeviceOptions& options)
      : workers_(cpu::makeTeam(options.threads)),
        links_{.device = options.index, .host = options.hostLink, .peer = options.peerLink},
        table_("far", tableEntries(options.fuses), options.tuning),
        orderCheck_(options.orderCheck) {
    info_ = {.kind = "far",
             .description = cpu::describeCpu(),
             .index = options.index,
             .threads = options.threads,
             .memoryBytes = options.memoryBytes,
             .alignment = options.alignment,
             .hostReadable = false,
             .asynchronous = true,
             .physicalId = options.index,
             .shares = options.shares,
             .hostLink = options.hostLink,
             .peerLink = options.peerLink};
  }

  const device::DeviceInfo& info() const override { return info_; }
  const device::KernelTable& kernels() const override { return table_; }
  std::unique_ptr<device::Queue> makeQueue() override {
    return std::make_unique<FarQueue>(*workers_, compute_, links_, orderCheck_);
  }
  std::unique_ptr<device::Event> makeEvent() override { return std::make_unique<FarEvent>(); }

 private:
  std::unique_ptr<device::Memory> doAllocate(std::size_t bytes) override {
    return std::make_unique<FarMemory>(bytes, info_.index, orderCheck_);
  }
  std::unique_ptr<device::Memory> doAllocatePinned(std::size_t bytes) override {
    auto memory = device::allocateOnHost(device::MemoryKind::Pinned, bytes, info_);
    if (!orderCheck_) {
      return memory;
    }
    return std::make_unique<CheckedPinnedMemory>(std::move(memory), orderCheck_);
  }
  std::unique_ptr<device::Executable> doPrepare(
      std::span<const device::KernelCall> calls) override {
    return std::make_unique<FarSegment>(calls);
  }

  std::unique_ptr<device::Capture> doCapture(device::Executable& executable,
                                             std::span<const device::Address> buffers) override {
    return std::make_unique<FarCapture>(static_cast<FarSegment&>(executable), buffers);
  }
  std::unique_ptr<device::Capture> doRecord(std::span<device::Queue* const> queues,
                                            const ir::RunInfo& run,
                                            FunctionRef<void()> give) override;

  device::DeviceInfo info_;
  std::unique_ptr<Workers> workers_;
  std::mutex compute_;  // the team runs one kernel at a time
  FarLinks links_;
  device::KernelTable table_;
  std::shared_ptr<OrderCheck> orderCheck_;
};

/// Makes queues record as long as it lives.
class RecordingQueues {
 public:
  RecordingQueues(std::span<device::Queue* const> queues, FarRecording& recording)
      : queues_(queues) {
    for (std::size_t q = 0; q < queues.size(); ++q) {
      auto* const queue = static_cast<FarQueue*>(queues[q]);
      recording.parts()[q].queue = queue;
      queue->recordInto(&recording, q);
    }
  }
  ~RecordingQueues() {
    for (device::Queue* const queue : queues_) {
      static_cast<FarQueue*>(queue)->recordInto(nullptr);
    }
  }
  RecordingQueues(const RecordingQueues&) = delete;
  RecordingQueues& operator=(const RecordingQueues&) = delete;

 private:
  std::span<device::Queue* const> queues_;
};

std::unique_ptr<device::Capture> FarDevice::doRecord(std::span<device::Queue* const> queues,
                                                     const ir::RunInfo& run,
                                                     FunctionRef<void()> give) {
  auto recording = std::make_unique<FarRecording>(run, queues.size());
  const RecordingQueues all(queues, *recording);
  give();
  return recording;
}

}  // namespace

std::unique_ptr<device::Device> makeFarDevice(const FarDeviceOptions& options) {
  if (options.alignment < 64 || !std::has_single_bit(options.alignment)) {
    raise<InvalidArgument>("far device: the alignment must be a power of two from 64 on, got {}",
                           options.alignment);
  }
  return std::make_unique<FarDevice>(options);
}

}  // namespace sluice::devices::far
