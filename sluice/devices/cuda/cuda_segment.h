// The kernels of a segment, ready to be given to streams. Private to the device.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/devices/cuda/cuda_memory.h"
#include "sluice/devices/cuda/joined.h"
#include "sluice/devices/cuda/kernel.h"
#include "sluice/devices/cuda/launch_order.h"

namespace sluice::devices::cuda {

/// The record of a device's faults, and the names of the kernels that may report one.
class Faults {
 public:
  explicit Faults(int gpu) : memory_(gpu, sizeof(Fault)) { record() = {}; }
  Fault* pointer() { return &record(); }
  /// The number of a kernel.
  int add(std::string name);
  /// Whether a kernel has reported a fault.
  bool isSet() const;
  /// The fault as an exception, or null; then the record is free again if `take`.
  std::exception_ptr read(bool take);

 private:
  Fault& record() const { return *reinterpret_cast<Fault*>(memory_.host()); }

  PinnedMemory memory_;
  std::mutex mutex_;  // guards names_
  std::vector<std::string> names_;
};

class CudaSegment final : public device::Executable {
 public:
  /// Throws Unsupported if a kernel for the calls cannot be made.
  CudaSegment(std::span<const device::KernelCall> calls,
              const MakeContext& context,
              Faults& faults);

  struct Launch {
    cudaStream_t stream = nullptr;
    RunNumbers* run = nullptr;
    bool synchronise = false;  ///< after every kernel, so that an error names it
  };
  /// Gives all kernels to the stream; `buffers` is indexed like the operands of the calls. One
  /// thread at a time.
  void launch(const Launch& how, std::span<const device::Address> buffers);
  /// One launch of a recorded segment: a call, or several small ones that run as one kernel.
  struct Unit {
    std::vector<std::size_t> calls;
    std::optional<JoinedKernel> joined;
  };
  /// The launches for these addresses; compiles what is joined for the first time.
  std::vector<Unit> unitsFor(std::span<const device::Address> buffers) const;
  /// Gives the units to a stream that is being captured: they form a graph in which those that
  /// share no bytes run side by side.
  void record(const Launch& how,
              std::span<const device::Address> buffers,
              std::span<const Unit> units);
  /// Whether a kernel reads the numbers of the step.
  bool readsRun() const { return readsRun_; }

 private:
  struct Call {
    std::unique_ptr<Kernel> kernel;
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> outputs;
    std::vector<void*> in;  ///< the addresses of the launch that is being made
    std::vector<void*> out;
    std::int32_t scratch;
    std::string name;
    int number;
    std::vector<std::size_t> inputBytes;
    std::vector<std::size_t> outputBytes;
    std::size_t scratchBytes;
    std::optional<Source> small;  ///< its text if it can be joined with others
    bool accumulates;
  };
  KernelRun runOf(Call& call, const Launch& how, std::span<const device::Address> buffers);
  void launchCall(Call& call, const Launch& how, std::span<const device::Address> buffers);
  void launchJoined(const Unit& unit, const Launch& how, std::span<const device::Address> buffers);
  static Access accessOf(const Call& call, std::span<const device::Address> buffers);
  /// What all calls of the units read and write.
  std::vector<Access> accessesOf(std::span<const Unit> units,
                                 std::span<const device::Address> buffers) const;

  std::vector<Call> calls_;
  MakeContext context_;
  Faults& faults_;
  bool readsRun_ = false;
};

}  // namespace sluice::devices::cuda
