// A device that wraps another one, reports the info that a test wants, and can be lost.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/device/device.h"

namespace sluice::testing {

/// How a device is lost: a launch or a copy throws, or the queue fails after it accepted a launch,
/// or all queues of the device do, as those of a GPU.
enum class Loss : std::uint8_t { No, AtLaunch, AtCopy, InQueue, InAllQueues };

/// What the queues of a device know of its loss.
struct LossState {
  std::atomic<Loss> loss{Loss::No};
  std::atomic<bool> all{false};  ///< a launch has taken all queues with it
};

class WrappedQueue final : public device::Queue {
 public:
  WrappedQueue(std::unique_ptr<device::Queue> inner, LossState& device)
      : inner_(std::move(inner)), device_(device) {}

 private:
  void doSetRun(const ir::RunInfo& info) override {
    if (!hasFailed()) {
      inner_->setRun(info);
    }
  }
  void doLaunch(device::Executable& executable, std::span<const device::Address> buffers) override {
    if (device_.loss == Loss::AtLaunch) {
      raise<DeviceError>("the device is gone");
    }
    if (device_.loss == Loss::InQueue) {
      const std::scoped_lock lock(mutex_);
      failure_ = std::make_exception_ptr(DeviceError("the device is gone"));
    }
    if (device_.loss == Loss::InAllQueues) {
      inner_->finish();  // the loss comes when the launch would begin, not when it is issued
      device_.all = true;
    }
    if (!hasFailed()) {
      inner_->launch(executable, buffers);
    }
  }
  void doCopy(device::Address to, device::Address from, std::size_t bytes) override {
    if (device_.loss == Loss::AtCopy) {
      raise<DeviceError>("the device is gone");
    }
    if (!hasFailed()) {
      inner_->copy(to, from, bytes);
    }
  }
  void doFill(device::Address to, std::byte value, std::size_t bytes) override {
    if (!hasFailed()) {
      inner_->fill(to, value, bytes);
    }
  }
  void doSum(device::Address to,
             std::span<const device::Address> from,
             DType type,
             std::int64_t elements) override {
    if (!hasFailed()) {
      inner_->sum(to, from, type, elements);
    }
  }
  void doRecord(device::Event& event) override { inner_->record(event); }
  void doWait(const device::Event& event) override { inner_->wait(event); }
  void doStamp(device::Stamp& stamp, std::int64_t number, device::Clock clock) override {
    if (!hasFailed()) {
      inner_->useClock(clock);
      inner_->stamp(stamp, number);
    }
  }
  void doFinish() override {
    inner_->finish();
    std::exception_ptr failure;
    {
      const std::scoped_lock lock(mutex_);
      failure = std::exchange(failure_, nullptr);
    }
    if (failure != nullptr) {
      std::rethrow_exception(failure);
    }
  }
  bool doIsIdle() const override { return inner_->isIdle(); }
  std::exception_ptr doFailure() const override {
    if (device_.all) {
      return std::make_exception_ptr(DeviceError("the device is gone"));
    }
    const std::scoped_lock lock(mutex_);
    return failure_ != nullptr ? failure_ : inner_->failure();
  }
  bool hasFailed() const {
    const std::scoped_lock lock(mutex_);
    return device_.all || failure_ != nullptr;
  }

  std::unique_ptr<device::Queue> inner_;
  LossState& device_;
  mutable std::mutex mutex_;  // guards failure_, which the host reads while others use the queue
  std::exception_ptr failure_;
};

class WrappedDevice final : public device::Device {
 public:
  explicit WrappedDevice(std::unique_ptr<device::Device> inner)
      : said(inner->info()), inner_(std::move(inner)) {}

  const device::DeviceInfo& info() const override { return said; }
  const device::KernelTable& kernels() const override { return inner_->kernels(); }
  std::unique_ptr<device::Queue> makeQueue() override {
    auto made = std::make_unique<WrappedQueue>(inner_->makeQueue(), lossState);
    queues.push_back(made.get());
    return made;
  }
  std::unique_ptr<device::Event> makeEvent() override { return inner_->makeEvent(); }

  device::DeviceInfo said;
  LossState lossState;
  std::atomic<Loss>& loss = lossState.loss;
  std::vector<const device::Queue*> queues;  ///< all queues that were made

 private:
  std::unique_ptr<device::Memory> doAllocate(std::size_t bytes) override {
    return inner_->allocate(bytes);
  }
  std::unique_ptr<device::Memory> doAllocatePinned(std::size_t bytes) override {
    return inner_->allocatePinned(bytes);
  }
  std::unique_ptr<device::Executable> doPrepare(
      std::span<const device::KernelCall> calls) override {
    return inner_->prepare(calls);
  }

  std::unique_ptr<device::Device> inner_;
};

}  // namespace sluice::testing
