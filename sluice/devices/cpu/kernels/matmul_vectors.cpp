// The rows are cut into tiles; bits do not depend on the cut. A transposed right operand is packed
// first, in scratch.
#include "sluice/devices/cpu/kernels/matmul_vectors.h"

#include <algorithm>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/matmul_plan.h"
#include "sluice/devices/cpu/kernels/panel_product.h"

namespace sluice::devices::cpu {
namespace {

constexpr double kMostTiles = 256;
constexpr double kFlopsPerTile = 3e6;  // less is not worth a thread
constexpr std::int64_t kRowBlock = 12;

/// Multiply-adds up to which a call of the library is a large part of the time.
constexpr std::int64_t kSmall = 1 << 19;
/// Elements of a transposed right operand that is worth packing for one product.
constexpr std::int64_t kSmallTransposed = 4096;
/// Elements of the right operand up to which it stays in cache while the rows go by.
constexpr std::int64_t kCachedRight = 1 << 13;
/// Elements of both tall matrices from which on they come from memory.
constexpr std::int64_t kFromMemory = 1 << 20;
constexpr std::int64_t kLeastColumns = 16;
/// Sums so short that writing so many results takes the time.
constexpr std::int64_t kShortSum = 72;
constexpr std::int64_t kManyResults = 1 << 18;

std::size_t scratchOf(const ops::MatMulDims& d) {
  if (d.strideBn == 1) {
    return 0;
  }
  const PanelFormat panels = panelsOf(d.k, d.n);
  return onednn::alignedBytes(static_cast<std::size_t>(panels.panels * panels.panelStride) *
                              sizeof(float));
}

std::int64_t tilesOf(const ops::MatMulDims& d) {
  const double flops =
      2.0 * static_cast<double>(d.m) * static_cast<double>(d.n) * static_cast<double>(d.k);
  return static_cast<std::int64_t>(std::clamp(flops / kFlopsPerTile, 1.0, kMostTiles));
}

std::int64_t rowsPerTile(const ops::MatMulDims& d) {
  return ceilDiv(ceilDiv(d.m, tilesOf(d)), kRowBlock) * kRowBlock;
}

/// Whether a product with operands in plain storage is quicker than the library's.
bool likesPlain(const ops::MatMulDims& d) {
  if (d.k <= kShortSum && d.m * d.n >= kManyResults && d.n >= kLeastColumns) {
    return true;
  }
  if (d.strideBn != 1 && d.n * d.k >= kSmallTransposed) {
    return false;
  }
  if (d.m * d.n * d.k <= kSmall) {
    return true;
  }
  return d.strideAk == 1 && d.n >= kLeastColumns && d.n * d.k <= kCachedRight &&
         d.m * (d.n + d.k) >= kFromMemory;
}

class VectorMatMul : public TiledKernel {
 public:
  explicit VectorMatMul(const ops::MatMulDims& d)
      : d_(d), panels_(panelsOf(d.k, d.n)), step_(rowsPerTile(d)) {}

  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    const RightMatrix b = right(run);
    run.workers.parallelFor(ceilDiv(d_.m, step_), [&](std::int64_t tile) {
      const std::int64_t first = tile * step_;
      const std::int64_t rows = std::min(step_, d_.m - first);
      multiplyRows({run.in<float>(0) + first * d_.strideAm, d_.strideAm, d_.strideAk},
                   b,
                   {run.out<float>(0) + first * d_.n, d_.n},
                   {rows, d_.n, d_.k});
      epilogue({first * d_.n, (first + rows) * d_.n});
    });
  }

 private:
  RightMatrix right(const KernelRun& run) const {
    const auto* b = run.in<float>(1);
    if (d_.strideBn == 1) {
      return {b, d_.n, d_.n, 0};
    }
    auto* packed = static_cast<float*>(run.scratch);
    packMatrix(panels_, b, packed, run.workers);
    return {packed, panels_.width, panels_.width, panels_.panelStride};
  }

  ops::MatMulDims d_;
  PanelFormat panels_;
  std::int64_t step_;
};

}  // namespace

bool canMultiplyByVectors(const ir::OpView& op) {
  return product::isOneFloatProduct(op);
}

bool likesVectors(const ir::OpView& op) {
  return canMultiplyByVectors(op) && likesPlain(product::normalize(op).d);
}

device::Choice chooseVectors(const ir::OpView& op) {
  device::Choice choice = device::plainChoice(op, "");
  choice.config = kVectorsConfig;
  choice.scratchBytes = scratchOf(product::normalize(op).d);
  return choice;
}

std::unique_ptr<TiledKernel> makeVectors(const ir::OpView& op) {
  return std::make_unique<VectorMatMul>(product::normalize(op).d);
}

}  // namespace sluice::devices::cpu
