// Several small kernels as one launch: the updates of many parameters, or their accumulators. Each
// block runs a block of one of the kernels, by its own text, so that the bits stay. Private to the
// device and its tests.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "sluice/devices/cuda/kernel.h"
#include "sluice/devices/cuda/launch_order.h"
#include "sluice/devices/cuda/source.h"

namespace sluice::devices::cuda {

class Module;

/// Whether a kernel can be a part of a joined one: one entry with blocks of the usual size, few
/// enough of them that its launch is what it costs.
bool isJoinable(const Source& source);

/// A kernel of a joined one, with the number of its operands and results.
struct JoinedPart {
  const Source* source;
  std::size_t pointers;
};

/// The most kernels of a joined one, and the most pointers that they take together: a launch has
/// room for 4 KiB of arguments.
inline constexpr std::size_t kMostJoined = 64;
inline constexpr std::size_t kMostPointers = 448;

/// The kernels of a segment in an order in which equal results are made, as groups of numbers.
/// Groups of more than one have joinable kernels only, which share no bytes. A joinable kernel is
/// put off until another kernel needs what it does. `pointers` has the number of operands and
/// results of each joinable kernel, and 0 for others.
std::vector<std::vector<std::size_t>> joinedOrder(std::span<const Access> kernels,
                                                  std::span<const std::size_t> pointers);

/// The kernel "joined" that runs all of the sources, which are joinable; equal texts are written
/// once.
Source joinedSource(std::span<const JoinedPart> parts);

/// Ready to be launched.
class JoinedKernel {
 public:
  JoinedKernel(std::span<const JoinedPart> parts, const MakeContext& context);

  /// `runs` are those of the parts, in their order.
  void launch(std::span<const KernelRun> runs) const;

 private:
  std::shared_ptr<const Module> module_;
  const void* entry_;
  unsigned blocks_;
};

}  // namespace sluice::devices::cuda
