// The kernels of a segment, ready to run on the host's cores: the executable of the CPU device and
// of every other kind that computes with the CPU's kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/base/workers.h"
#include "sluice/device/device.h"
#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

/// While it lives, oneDNN runs the primitives of this thread on this thread alone (rule R3).
class OneOmpThread {
 public:
  OneOmpThread();
  ~OneOmpThread();
  OneOmpThread(const OneOmpThread&) = delete;
  OneOmpThread& operator=(const OneOmpThread&) = delete;

 private:
  int before_;
};

/// A team of threads whose members are ready for oneDNN.
std::unique_ptr<Workers> makeTeam(int threads);

class CpuSegment final : public device::Executable {
 public:
  /// Throws Unsupported if a kernel for the calls cannot be made.
  explicit CpuSegment(std::span<const device::KernelCall> calls);

  /// Runs all kernels; `buffers` is indexed like the operands of the calls. Asks `isStopped` before
  /// each kernel and throws Cancelled if it returns true. One thread at a time.
  void run(std::span<std::byte* const> buffers,
           const ir::RunInfo& info,
           Workers& workers,
           const std::function<bool()>& isStopped);
  /// The buffers that the calls use, each once.
  std::span<const std::int32_t> buffers() const { return used_; }

 private:
  struct Call {
    std::unique_ptr<Kernel> kernel;
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> outputs;
    std::int32_t scratch;
    std::string name;
  };
  std::vector<Call> calls_;
  std::vector<std::int32_t> used_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

/// Adds up each element in the order of `from`; `to` must not be one of `from`.
void sumElements(void* to, std::span<const void* const> from, DType type, std::int64_t elements);

}  // namespace sluice::devices::cpu
