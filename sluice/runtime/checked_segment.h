// CheckedSegment: the kernels of a segment run one by one, with a look at the operands and results
// of each. Slow, and the same bits. Private to the runtime module.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/program/program.h"
#include "sluice/runtime/non_finite.h"

namespace sluice::runtime {

class CheckedSegment {
 public:
  /// `calls` are those of the segment, with buffers by their numbers on the device; it must outlive
  /// this.
  CheckedSegment(device::Device& device,
                 const program::Segment& segment,
                 std::span<const device::KernelCall> calls);

  /// `microBatch` is the number of the step's. Throws FloatingPointError.
  void run(device::Queue& queue,
           std::span<std::byte* const> buffers,
           ir::RunInfo info,
           std::int64_t microBatch);

 private:
  struct Seen {
    bool nan = false;
    bool inf = false;
  };

  FiniteCheck look(device::Queue& queue,
                   const TensorType& type,
                   const device::Layout& layout,
                   const std::byte* data);
  Seen lookAtInputs(device::Queue& queue,
                    const device::KernelCall& call,
                    std::span<std::byte* const> buffers);
  [[noreturn]] void fail(const device::KernelCall& call,
                         std::string problem,
                         std::int64_t microBatch) const;

  const program::Segment& segment_;
  std::span<const device::KernelCall> calls_;
  std::vector<std::unique_ptr<device::Executable>> kernels_;
  std::vector<std::byte> copy_;  // of a tensor, on the host
};

/// The same for the sum of a tensor over replicas.
void requireFiniteSum(std::string_view name,
                      const TensorType& type,
                      std::span<const void* const> from,
                      const void* to);

}  // namespace sluice::runtime
