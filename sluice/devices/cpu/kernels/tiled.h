// Kernels that compute their output tile by tile and can pass each finished tile to an epilogue
// while it is still in cache: the anchors (matmul, conv) of fused ops. The bits of the anchor do
// not depend on whether it has an epilogue.
#pragma once

#include <cstdint>
#include <memory>

#include "sluice/base/function_ref.h"
#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

/// Elements [begin, end) of output 0 in storage order: whole rows of a matmul's [rows, columns],
/// whole pixels of a convolution in channels-last storage, else whole images. Tiles are disjoint
/// and cover the output.
struct OutputTile {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class TiledKernel : public Kernel {
 public:
  /// Calls `epilogue` once per tile, after its elements are written, from any thread of the team;
  /// it may change them in place.
  virtual void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) = 0;

  void run(const KernelRun& run) override {
    runTiles(run, [](const OutputTile&) {});
  }
};

/// Makes the kernel of a matmul or conv as an anchor; nullptr if the implementation has no tiles.
/// Its operands and scratch are those of `choice`, as for any kernel.
std::unique_ptr<TiledKernel> makeTiled(const ir::OpView& op, const device::Choice& choice);

// conv.cpp
std::unique_ptr<TiledKernel> makeTiledConv(const ir::OpView& op, const device::Choice& choice);

// matmul.cpp
std::unique_ptr<TiledKernel> makeTiledMatMul(const ir::OpView& op, const device::Choice& choice);

}  // namespace sluice::devices::cpu
