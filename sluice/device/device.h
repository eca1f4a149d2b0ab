// The device interface: about ten calls. A device is a kernel table, memory and queues; it knows
// nothing about programs, schedules or strategies. Public functions check their arguments and call
// private virtual functions. If a thread must prepare itself before it uses a device, the device
// does that in each call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/device/device_info.h"
#include "sluice/device/kernel_table.h"
#include "sluice/device/memory.h"
#include "sluice/device/queue.h"
#include "sluice/ir/op_def.h"

namespace sluice::device {

/// One kernel of a segment. Its operands are indices into the table of buffers that the executable
/// runs with; -1 means none.
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

/// Allocates host memory for use as `kind`; throws OutOfMemory naming the owner.
std::unique_ptr<Memory> allocateOnHost(MemoryKind kind, std::size_t bytes, const DeviceInfo& owner);

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual const KernelTable& kernels() const = 0;
  /// Allocates memory for kernels, aligned as `info` says; throws OutOfMemory.
  std::unique_ptr<Memory> allocate(std::size_t bytes);
  /// Allocates host memory that this device can copy from and to most quickly.
  std::unique_ptr<Memory> allocatePinned(std::size_t bytes) { return doAllocatePinned(bytes); }
  /// Locks memory of the host, which must outlive the result: as long as that lives, this device
  /// copies from and to it as quickly as with pinned memory. Null if the kind gains nothing by it
  /// or the host cannot lock so much.
  std::unique_ptr<Memory> pin(std::byte* host, std::size_t bytes) { return doPin(host, bytes); }
  /// Makes the kernels of a segment. Throws Unsupported if a library now answers differently than
  /// when the choices were made.
  std::unique_ptr<Executable> prepare(std::span<const KernelCall> calls) {
    return doPrepare(calls);
  }
  /// Captures a launch of the executable with these addresses for `Queue::replay`. Returns null if
  /// the kind gains nothing by it.
  std::unique_ptr<Capture> capture(Executable& executable, std::span<const Address> buffers) {
    return doCapture(executable, buffers);
  }
  /// Records all that `give` gives to these queues, without running it, as a capture that any one
  /// of them replays; the order within queues and by events stays. The queues belong to devices of
  /// this kind and are idle. `run` is what `give` counts from: the capture adds what it was told
  /// beyond that to the numbers that the replaying queue has. Returns null if the kind or these
  /// devices cannot; `give` was not called then.
  std::unique_ptr<Capture> record(std::span<Queue* const> queues,
                                  const ir::RunInfo& run,
                                  FunctionRef<void()> give) {
    return doRecord(queues, run, give);
  }
  /// Any thread may use the queue, one at a time; the queue must be destroyed before the device.
  virtual std::unique_ptr<Queue> makeQueue() = 0;
  virtual std::unique_ptr<Event> makeEvent() = 0;

 private:
  virtual std::unique_ptr<Memory> doAllocate(std::size_t bytes) = 0;
  virtual std::unique_ptr<Memory> doAllocatePinned(std::size_t bytes);
  virtual std::unique_ptr<Memory> doPin(std::byte*, std::size_t) { return nullptr; }
  virtual std::unique_ptr<Executable> doPrepare(std::span<const KernelCall> calls) = 0;
  virtual std::unique_ptr<Capture> doCapture(Executable&, std::span<const Address>) {
    return nullptr;
  }
  virtual std::unique_ptr<Capture> doRecord(std::span<Queue* const>,
                                            const ir::RunInfo&,
                                            FunctionRef<void()>) {
    return nullptr;
  }
};

}  // namespace sluice::device
