// The device interface: about ten calls. A device is a kernel table, memory and queues; it knows
// nothing of programs, schedules or strategies. Public functions check, the private virtuals do.
// What a thread needs before it may use a device is the device's own business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/device/kernel_table.h"
#include "sluice/device/memory.h"
#include "sluice/device/queue.h"
#include "sluice/ir/op_def.h"

namespace sluice::device {

/// A way for data; 0: not known, or no limit.
struct Link {
  double bytesPerSecond = 0;
  double latencySeconds = 0;
};

/// Multiplications and additions per second by type of the operands; 0: not known.
struct ComputeRates {
  double f32 = 0;
  double f16 = 0;
  double bf16 = 0;
  double f64 = 0;
};

struct DeviceInfo {
  std::string kind;         ///< "cpu", "far"
  std::string description;  ///< processor, instruction set, library versions: the scope of R10
  int index = 0;
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< the budget, of each share; 0: not limited
  std::size_t ownBytes = 0;     ///< of the budget, what the kind itself takes
  std::size_t alignment = 64;   ///< of every buffer
  bool hostReadable = true;     ///< the host may read its memory
  bool asynchronous = false;    ///< queues return before the work is done
  int physicalId = 0;           ///< devices with the same one share hardware
  int shares = 1;               ///< among so many, each with these threads and this budget
  int copyEngines = 0;          ///< copies that run beside kernels; 0: the host's threads
  double launchSeconds = 0;     ///< fixed cost of a launch; 0: not known
  ComputeRates rates = {};
  double memoryBytesPerSecond = 0;  ///< read and written; 0: not known
  Link hostLink = {};
  Link peerLink = {};  ///< to another device of the kind
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

/// Memory of the host in the role of `kind`; throws OutOfMemory that names the owner.
std::unique_ptr<Memory> allocateOnHost(MemoryKind kind, std::size_t bytes, const DeviceInfo& owner);

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual const KernelTable& kernels() const = 0;
  /// For kernels, aligned as `info` says; throws OutOfMemory.
  std::unique_ptr<Memory> allocate(std::size_t bytes);
  /// Memory of the host that copies of this device are quickest from and to.
  std::unique_ptr<Memory> allocatePinned(std::size_t bytes) { return doAllocatePinned(bytes); }
  /// Makes the kernels of a segment; fails with Unsupported if a library answers otherwise than
  /// when the choices were made.
  std::unique_ptr<Executable> prepare(std::span<const KernelCall> calls) {
    return doPrepare(calls);
  }
  /// A launch of the executable with these addresses, for `Queue::replay`; null: the kind gains
  /// nothing by it.
  std::unique_ptr<Capture> capture(Executable& executable, std::span<const Address> buffers) {
    return doCapture(executable, buffers);
  }
  /// Any thread may use a queue, one at a time; it must end before the device.
  virtual std::unique_ptr<Queue> makeQueue() = 0;
  virtual std::unique_ptr<Event> makeEvent() = 0;

 private:
  virtual std::unique_ptr<Memory> doAllocate(std::size_t bytes) = 0;
  virtual std::unique_ptr<Memory> doAllocatePinned(std::size_t bytes);
  virtual std::unique_ptr<Executable> doPrepare(std::span<const KernelCall> calls) = 0;
  virtual std::unique_ptr<Capture> doCapture(Executable&, std::span<const Address>) {
    return nullptr;
  }
};

}  // namespace sluice::device
