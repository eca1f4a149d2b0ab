// CheckedSegment: runs the kernels of a segment one by one, checks the operands and results of
// each, or notes what it writes. It is slow and gives the same bits. Private to the runtime module.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/kernel_log.h"
#include "sluice/runtime/non_finite.h"
#include "sluice/runtime/prepared_segment.h"

namespace sluice::runtime {

class CheckedSegment {
 public:
  /// `calls` are the calls of the segment, with the numbers of buffers on the device. The segment
  /// and the calls must outlive this object.
  CheckedSegment(device::Device& device,
                 const program::Segment& segment,
                 std::span<const device::KernelCall> calls,
                 const Watch& watch);

  /// One run of it. Without `writes` or `kernels` nothing is noted there.
  struct Turn {
    ir::RunInfo info;
    std::int64_t microBatch = 0;  ///< number in the step, over all replicas
    std::int32_t round = 0;
    const program::Program* program = nullptr;
    WriteLog* writes = nullptr;
    KernelLog* kernels = nullptr;
    KernelSpan place = {};  ///< of the task; its kernel and times are not set
  };
  /// Throws FloatingPointError if it is watched for that.
  void run(device::Queue& queue, std::span<const device::Address> buffers, const Turn& turn);

 private:
  struct Seen {
    bool nan = false;
    bool inf = false;
  };

  FiniteCheck look(device::Queue& queue,
                   const TensorType& type,
                   const device::Layout& layout,
                   device::Address data);
  Seen lookAtInputs(device::Queue& queue,
                    const device::KernelCall& call,
                    std::span<const device::Address> buffers);
  void requireFinite(device::Queue& queue,
                     const device::KernelCall& call,
                     std::span<const device::Address> buffers,
                     const Seen& seen,
                     std::int64_t microBatch);
  void note(device::Queue& queue,
            std::size_t kernel,
            std::span<const device::Address> buffers,
            const Turn& turn);
  [[noreturn]] void fail(const device::KernelCall& call,
                         std::string problem,
                         std::int64_t microBatch) const;

  const program::Segment& segment_;
  std::span<const device::KernelCall> calls_;
  Watch watch_;
  std::vector<PreparedSegment> kernels_;
  std::vector<std::byte> copy_;  // a copy of a tensor on the host
};

/// Checks the sum of a tensor over replicas in the same way; the queue has already got the sum.
void requireFiniteSum(device::Queue& queue,
                      std::string_view name,
                      const TensorType& type,
                      std::span<const device::Address> from,
                      device::Address to);

}  // namespace sluice::runtime
