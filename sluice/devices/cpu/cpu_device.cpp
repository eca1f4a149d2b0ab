#include "sluice/devices/cpu/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "sluice/devices/cpu/cpu_segment.h"
#include "sluice/devices/cpu/kernel_table.h"

namespace sluice::devices::cpu {
namespace {

/// Everything is done when a call returns.
class CpuEvent final : public device::Event {
 private:
  bool doIsDone() const override { return true; }
  bool doAwait(std::chrono::milliseconds) const override { return true; }
};

/// Runs in the thread that calls it.
class CpuQueue final : public device::Queue {
 public:
  explicit CpuQueue(Workers& workers) : workers_(workers) {}

 private:
  void doSetRun(const ir::RunInfo& info) override { run_ = info; }
  void doLaunch(device::Executable& executable, std::span<const device::Address> buffers) override {
    auto& segment = static_cast<CpuSegment&>(executable);
    pointers_.resize(std::max(pointers_.size(), buffers.size()));
    for (const std::int32_t buffer : segment.buffers()) {
      const auto i = static_cast<std::size_t>(buffer);
      pointers_[i] = device::hostPointer(buffers[i]);
    }
    segment.run(pointers_, run_, workers_, [this] { return isStopped(); });
  }
  void doCopy(device::Address to, device::Address from, std::size_t bytes) override {
    std::memcpy(device::hostPointer(to), device::hostPointer(from), bytes);
  }
  void doFill(device::Address to, std::byte value, std::size_t bytes) override {
    std::memset(device::hostPointer(to), static_cast<int>(value), bytes);
  }
  void doSum(device::Address to,
             std::span<const device::Address> from,
             DType type,
             std::int64_t elements) override {
    terms_.clear();
    for (const device::Address& term : from) {
      terms_.push_back(device::hostPointer(term));
    }
    sumElements(device::hostPointer(to), terms_, type, elements);
  }
  void doRecord(device::Event&) override {}
  void doWait(const device::Event&) override {}
  void doStamp(device::Stamp& stamp, std::int64_t number, device::Clock clock) override {
    stamp.time.store(clock(), std::memory_order_relaxed);
    stamp.number.store(number, std::memory_order_release);
  }
  void doFinish() override {}

  Workers& workers_;
  ir::RunInfo run_;
  std::vector<std::byte*> pointers_;
  std::vector<const void*> terms_;
};

class CpuDevice final : public device::Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options)
      : workers_(makeTeam(options.threads)),
        table_("cpu",
               options.referenceOnly
                   ? std::vector{static_cast<const device::KernelEntry&>(kReferenceEntry)}
                   : tableEntries(),
               options.tuning) {
    info_ = {.kind = "cpu",
             .description = describeCpu(),
             .index = options.index,
             .threads = options.threads,
             .memoryBytes = options.memoryBytes,
             .physicalId = 0,  // whatever its number, it is this machine
             .shares = options.shares};
  }

  const device::DeviceInfo& info() const override { return info_; }
  const device::KernelTable& kernels() const override { return table_; }
  std::unique_ptr<device::Queue> makeQueue() override {
    return std::make_unique<CpuQueue>(*workers_);
  }
  std::unique_ptr<device::Event> makeEvent() override { return std::make_unique<CpuEvent>(); }

 private:
  std::unique_ptr<device::Memory> doAllocate(std::size_t bytes) override {
    return device::allocateOnHost(device::MemoryKind::Device, bytes, info_);
  }
  std::unique_ptr<device::Executable> doPrepare(
      std::span<const device::KernelCall> calls) override {
    return std::make_unique<CpuSegment>(calls);
  }

  device::DeviceInfo info_;
  std::unique_ptr<Workers> workers_;
  device::KernelTable table_;
};

}  // namespace

std::unique_ptr<device::Device> makeCpuDevice(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

const device::KernelTable& cpuKernelTable() {
  static const device::KernelTable kTable("cpu", tableEntries(), device::Tuning{});
  return kTable;
}

}  // namespace sluice::devices::cpu
