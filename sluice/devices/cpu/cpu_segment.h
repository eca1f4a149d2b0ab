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

class TileKernel;

class CpuSegment final : public device::Executable {
 public:
  /// Throws Unsupported if a kernel for the calls cannot be made.
  explicit CpuSegment(std::span<const device::KernelCall> calls);

  /// Runs all kernels; `buffers` is indexed like the operands of the calls. Kernels in a row of
  /// which none reads or writes what another writes, such as the updates of all weights, share one
  /// parallel region. Asks `isStopped` before each kernel or such a row and throws Cancelled if it
  /// returns true. One thread at a time.
  void run(std::span<std::byte* const> buffers,
           const ir::RunInfo& info,
           Workers& workers,
           const std::function<bool()>& isStopped);
  /// The buffers that the calls use, each once.
  std::span<const std::int32_t> buffers() const { return used_; }

 private:
  /// The operand of a call.
  struct Operand {
    std::int32_t buffer;
    std::size_t bytes;
  };
  struct Call {
    std::unique_ptr<Kernel> kernel;
    const TileKernel* tiled;  ///< the kernel, if its tiles can be run one by one
    std::vector<Operand> inputs;
    std::vector<Operand> outputs;
    std::int32_t scratch;
    std::string name;
    std::size_t in = 0;  ///< where its addresses begin in in_ and out_
    std::size_t out = 0;
  };
  /// Bytes that calls of a row use.
  struct Extent {
    const std::byte* begin;
    const std::byte* end;
  };

  void findRows(std::span<std::byte* const> buffers);
  std::size_t endOfRow(std::size_t first, std::span<std::byte* const> buffers);
  KernelRun prepare(Call& call,
                    std::span<std::byte* const> buffers,
                    const ir::RunInfo& info,
                    Workers& workers);
  void runRow(std::span<Call> row,
              std::span<std::byte* const> buffers,
              const ir::RunInfo& info,
              Workers& workers);

  std::vector<Call> calls_;
  std::vector<std::int32_t> used_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  // The rows of independent calls: where each ends, for the addresses they were found for.
  std::vector<std::size_t> rowEnds_;
  std::vector<const std::byte*> found_;
  std::vector<Extent> read_;
  std::vector<Extent> written_;
  std::vector<std::int64_t> firstTiles_;
};

/// Adds up each element in the order of `from`; `to` must not be one of `from`.
void sumElements(void* to, std::span<const void* const> from, DType type, std::int64_t elements);

}  // namespace sluice::devices::cpu
