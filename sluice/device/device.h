// The device interface: about ten calls. A device is a kernel table, memory and queues; it knows
// nothing of programs, schedules or strategies. Public functions check, the private virtuals do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/device/kernel.h"
#include "sluice/ir/op_def.h"

namespace sluice::device {

struct DeviceInfo {
  std::string kind;         ///< "cpu", "cuda", "sim"
  std::string description;  ///< processor, instruction set, library versions: the scope of R10
  int index = 0;
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< the budget; 0: not limited
};

/// Memory of one device; freed with the object.
class Memory {
 public:
  Memory() = default;
  Memory(std::byte* data, std::size_t bytes, std::function<void(std::byte*)> release)
      : data_(data, std::move(release)), bytes_(bytes) {}
  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> data_;
  std::size_t bytes_ = 0;
};

/// One kernel of a segment, with its operands as indices into the table of buffers that the
/// executable is run with; -1 means none.
struct KernelCall {
  const ir::OpDef* def = nullptr;
  ir::Attrs attrs;
  std::vector<TensorType> inputTypes;
  std::vector<TensorType> outputTypes;
  std::string name;
  Choice choice;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> outputs;
  std::int32_t scratch = -1;

  ir::OpView view() const { return {*def, attrs, inputTypes, outputTypes}; }
};

/// A prepared segment: kernels made, libraries asked. Runs on the queue of the device that made it.
class Executable {
 public:
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  virtual ~Executable() = default;
};

/// Work of one lane, in order. On the CPU a queue runs in the thread that calls it; `finish`
/// returns when everything launched so far is done.
class Queue {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  virtual ~Queue() = default;

  /// `buffers` are addresses by the indices of the segment's KernelCalls.
  void launch(Executable& executable, std::span<std::byte* const> buffers, ir::RunInfo info) {
    doLaunch(executable, buffers, info);
  }
  void copy(void* to, const void* from, std::size_t bytes);
  /// Adds up elements of a float type in the order of `from`, each sum rounded to the type; `to`
  /// may be none of them.
  void sum(void* to, std::span<const void* const> from, DType type, std::int64_t elements) {
    doSum(to, from, type, elements);
  }
  void finish() { doFinish(); }
  /// Once the flag is set, a launch may end between two kernels with Cancelled. Null: it never
  /// does.
  void stopWhen(const std::atomic<bool>* flag) { stop_ = flag; }

 protected:
  bool isStopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }

 private:
  virtual void doLaunch(Executable& executable,
                        std::span<std::byte* const> buffers,
                        ir::RunInfo info) = 0;
  virtual void doCopy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void doSum(void* to,
                     std::span<const void* const> from,
                     DType type,
                     std::int64_t elements) = 0;
  virtual void doFinish() = 0;

  const std::atomic<bool>* stop_ = nullptr;
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual const KernelTable& kernels() const = 0;
  /// 64-byte aligned; throws OutOfMemory.
  Memory allocate(std::size_t bytes);
  /// Makes the kernels of a segment; fails with Unsupported if a library answers otherwise than
  /// when the choices were made.
  std::unique_ptr<Executable> prepare(std::span<const KernelCall> calls) {
    return doPrepare(calls);
  }
  /// Called first in every thread that will use this device.
  virtual void enterThread() = 0;
  virtual std::unique_ptr<Queue> makeQueue() = 0;

 private:
  virtual Memory doAllocate(std::size_t bytes) = 0;
  virtual std::unique_ptr<Executable> doPrepare(std::span<const KernelCall> calls) = 0;
};

}  // namespace sluice::device
