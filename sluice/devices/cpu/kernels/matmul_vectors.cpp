// The rows are cut into tiles; bits do not depend on the cut. A transposed right operand is packed
// into panels first, in scratch.
#include "sluice/devices/cpu/kernels/matmul_vectors.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/matmul_plan.h"
#include "sluice/devices/cpu/kernels/pack_matrix.h"
#include "sluice/devices/cpu/kernels/vector_product.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::int64_t kMaxTiles = 8;
constexpr double kFlopsPerTile = 1.2e7;  // below that, handing a tile to a thread costs too much
constexpr std::int64_t kRowBlock = 12;
constexpr std::int64_t kPanel = 64;
constexpr std::int64_t kBlock = 16;

/// Multiply-adds up to which a call of the library is a large part of the time.
constexpr std::int64_t kSmall = 1 << 19;
/// Elements of a transposed right operand that is worth packing for one product.
constexpr std::int64_t kSmallTransposed = 4096;
/// Elements of the right operand up to which it stays in cache while the rows go by.
constexpr std::int64_t kCachedRight = 1 << 16;
/// Elements of both tall matrices from which on they come from memory.
constexpr std::int64_t kFromMemory = 1 << 20;

PanelFormat panelsOf(const ops::MatMulDims& d) {
  const std::int64_t width = std::min(kPanel, ceilDiv(d.n, kBlock) * kBlock);
  const std::int64_t padded = ceilDiv(d.k, kBlock) * kBlock;
  return {.down = d.k,
          .across = d.n,
          .downBlock = kBlock,
          .width = width,
          .downStride = kBlock * width,
          .panelStride = padded * width,
          .paddedDown = padded,
          .panels = ceilDiv(d.n, width)};
}

std::size_t scratchOf(const ops::MatMulDims& d) {
  if (d.strideBn == 1) {
    return 0;
  }
  const PanelFormat panels = panelsOf(d);
  return onednn::alignedBytes(static_cast<std::size_t>(panels.panels * panels.panelStride) *
                              sizeof(float));
}

std::int64_t rowsPerTile(const ops::MatMulDims& d) {
  const double flops =
      2.0 * static_cast<double>(d.m) * static_cast<double>(d.n) * static_cast<double>(d.k);
  const auto tiles =
      static_cast<std::int64_t>(std::clamp(flops / kFlopsPerTile, 1.0, double{kMaxTiles}));
  return ceilDiv(ceilDiv(d.m, tiles), kRowBlock) * kRowBlock;
}

class VectorMatMul : public TiledKernel {
 public:
  explicit VectorMatMul(const ops::MatMulDims& d)
      : d_(d), panels_(panelsOf(d)), step_(rowsPerTile(d)) {}

  void runTiles(const device::KernelRun& run,
                FunctionRef<void(const OutputTile&)> epilogue) override {
    const RightMatrix b = right(run);
    const auto* a = run.in<float>(0);
    auto* c = run.out<float>(0);
    run.workers.parallelFor(ceilDiv(d_.m, step_), [&](std::int64_t tile) {
      const std::int64_t first = tile * step_;
      const std::int64_t rows = std::min(step_, d_.m - first);
      multiplyRows({a + first * d_.strideAm, d_.strideAm, d_.strideAk},
                   b,
                   {c + first * d_.n, d_.n},
                   {rows, d_.n, d_.k});
      epilogue({first * d_.n, (first + rows) * d_.n});
    });
  }

 private:
  RightMatrix right(const device::KernelRun& run) const {
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
  if (op.inputs[0].dtype != DType::F32 || !hasVectorProduct()) {
    return false;
  }
  const product::Problem p = product::normalize(op);
  return p.batch == 1 && p.loop == 1;
}

bool likesVectors(const ir::OpView& op) {
  if (!canMultiplyByVectors(op)) {
    return false;
  }
  const ops::MatMulDims d = product::normalize(op).d;
  if (d.strideBn != 1 && d.n * d.k >= kSmallTransposed) {
    return false;
  }
  return d.m * d.n * d.k <= kSmall ||
         (d.strideAk == 1 && d.n * d.k <= kCachedRight && d.m * (d.n + d.k) >= kFromMemory);
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
