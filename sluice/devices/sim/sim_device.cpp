#include "sluice/devices/sim/sim_device.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/sim/kernel_cost.h"

namespace sluice::devices::sim {
namespace {

std::size_t budgetOf(const SimDeviceOptions& options) {
  const std::size_t has = options.target.memoryBytes;
  const std::size_t asked = options.memoryBytes;
  return has == 0 || asked == 0 ? std::max(has, asked) : std::min(has, asked);
}

/// Memory of the CPU that holds the claim of its device.
class ClaimedMemory final : public device::Memory {
 public:
  ClaimedMemory(std::unique_ptr<device::Memory> memory, std::shared_ptr<const void> claim)
      : device::Memory(memory->kind(), memory->host(), memory->bytes()),
        memory_(std::move(memory)),
        claim_(std::move(claim)) {}

 private:
  std::unique_ptr<device::Memory> memory_;
  std::shared_ptr<const void> claim_;
};

class SimDevice final : public device::Device, public device::CostModel {
 public:
  explicit SimDevice(const SimDeviceOptions& options)
      : target_(options.target),
        claim_(options.claim),
        cpu_(cpu::makeCpuDevice({.index = options.index,
                                 .shares = options.shares,
                                 .threads = options.threads,
                                 .tuning = options.tuning})) {
    info_ = cpu_->info();
    info_.kind = "sim";
    info_.description = fmt::format("modelled {}; values by {}", target_.name, info_.description);
    info_.memoryBytes = budgetOf(options);
    info_.physicalId = options.index;
    info_.rates = target_.flops;
    info_.memoryBytesPerSecond = target_.memoryBytesPerSecond;
    info_.hostLink = target_.machine.host;
    info_.peerLink = target_.machine.peer;
    info_.launchSeconds =
        static_cast<double>(target_.kernelTicks) / static_cast<double>(target_.clockHz);
  }

  const device::DeviceInfo& info() const override { return info_; }
  const device::KernelTable& kernels() const override { return cpu_->kernels(); }
  std::unique_ptr<device::Queue> makeQueue() override { return cpu_->makeQueue(); }
  std::unique_ptr<device::Event> makeEvent() override { return cpu_->makeEvent(); }

  std::string target() const override { return target_.name; }
  std::int64_t ticksPerSecond() const override { return target_.clockHz; }
  const device::MachineRates& machine() const override { return target_.machine; }
  std::int64_t kernelTicks(const device::KernelCall& call) const override {
    return sim::kernelTicks(target_, call);
  }

 private:
  std::unique_ptr<device::Memory> doAllocate(std::size_t bytes) override {
    if (claim_ == nullptr) {
      return cpu_->allocate(bytes);
    }
    std::shared_ptr<const void> claim = claimed_.lock();
    if (claim == nullptr) {
      claim = claim_();
      claimed_ = claim;
    }
    return std::make_unique<ClaimedMemory>(cpu_->allocate(bytes), std::move(claim));
  }
  std::unique_ptr<device::Executable> doPrepare(
      std::span<const device::KernelCall> calls) override {
    return cpu_->prepare(calls);
  }

  SimTarget target_;
  std::function<std::shared_ptr<const void>()> claim_;
  std::weak_ptr<const void> claimed_;
  std::unique_ptr<device::Device> cpu_;
  device::DeviceInfo info_;
};

}  // namespace

std::unique_ptr<device::Device> makeSimDevice(const SimDeviceOptions& options) {
  return std::make_unique<SimDevice>(options);
}

}  // namespace sluice::devices::sim
