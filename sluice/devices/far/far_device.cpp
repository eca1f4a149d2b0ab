#include "sluice/devices/far/far_device.h"

#include <bit>
#include <mutex>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_segment.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/far/far_memory.h"
#include "sluice/devices/far/far_queue.h"

namespace sluice::devices::far {
namespace {

class FarDevice final : public device::Device {
 public:
  explicit FarDevice(const FarDeviceOptions& options)
      : workers_(cpu::makeTeam(options.threads)),
        links_{.device = options.index, .host = options.hostLink, .peer = options.peerLink},
        table_("far",
               cpu::kernelEntries(),
               cpu::mergedTuning(options.tuning),
               true,
               device::HostOps::OnHost) {
    info_ = {.kind = "far",
             .description = cpu::describeCpu(),
             .index = options.index,
             .threads = options.threads,
             .memoryBytes = options.memoryBytes,
             .alignment = options.alignment,
             .hostReadable = false,
             .asynchronous = true,
             .physicalId = options.index,
             .hostLink = options.hostLink,
             .peerLink = options.peerLink};
  }

  const device::DeviceInfo& info() const override { return info_; }
  const device::KernelTable& kernels() const override { return table_; }
  std::unique_ptr<device::Queue> makeQueue() override {
    return std::make_unique<FarQueue>(*workers_, compute_, links_);
  }
  std::unique_ptr<device::Event> makeEvent() override { return std::make_unique<FarEvent>(); }

 private:
  std::unique_ptr<device::Memory> doAllocate(std::size_t bytes) override {
    return std::make_unique<FarMemory>(bytes, info_.index);
  }
  std::unique_ptr<device::Executable> doPrepare(
      std::span<const device::KernelCall> calls) override {
    return std::make_unique<cpu::CpuSegment>(table_, calls);
  }

  device::DeviceInfo info_;
  std::unique_ptr<Workers> workers_;
  std::mutex compute_;  // the team runs one kernel at a time
  FarLinks links_;
  device::KernelTable table_;
};

}  // namespace

std::unique_ptr<device::Device> makeFarDevice(const FarDeviceOptions& options) {
  if (options.alignment < 64 || !std::has_single_bit(options.alignment)) {
    raise<InvalidArgument>("far device: the alignment must be a power of two from 64 on, got {}",
                           options.alignment);
  }
  return std::make_unique<FarDevice>(options);
}

}  // namespace sluice::devices::far
