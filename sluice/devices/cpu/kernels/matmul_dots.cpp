#include "sluice/devices/cpu/kernels/matmul_dots.h"

#include <algorithm>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/matmul_plan.h"
#include "sluice/devices/cpu/kernels/row_products.h"

namespace sluice::devices::cpu {
namespace {

/// With more rows, multiply-adds take longer than reading the right operand.
constexpr std::int64_t kMostRows = 11;
/// Elements of the right operand of a tile.
constexpr std::int64_t kTileElements = 1 << 15;
/// Terms of a sum below which adding up its lanes takes the time.
constexpr std::int64_t kLeastTerms = 64;

class DotMatMul : public TiledKernel {
 public:
  explicit DotMatMul(const ops::MatMulDims& d)
      : d_(d), step_(std::max<std::int64_t>(4, kTileElements / d.k / 4 * 4)) {}

  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    run.workers.parallelFor(ceilDiv(d_.n, step_), [&](std::int64_t tile) {
      const std::int64_t first = tile * step_;
      multiplyDots({.left = run.in<float>(0),
                    .right = run.in<float>(1) + first * d_.k,
                    .to = run.out<float>(0) + first,
                    .rows = d_.m,
                    .columns = std::min(step_, d_.n - first),
                    .k = d_.k,
                    .toStride = d_.n});
    });
    epilogue({0, d_.m * d_.n});
  }

 private:
  ops::MatMulDims d_;
  std::int64_t step_;  ///< columns of a tile, so that they are computed by fours
};

}  // namespace

bool canMultiplyDots(const ir::OpView& op) {
  if (!product::isOneFloatProduct(op)) {
    return false;
  }
  const ops::MatMulDims d = product::normalize(op).d;
  return d.strideAk == 1 && d.strideBk == 1;
}

bool likesDots(const ir::OpView& op) {
  if (!canMultiplyDots(op)) {
    return false;
  }
  const ops::MatMulDims d = product::normalize(op).d;
  return d.m <= kMostRows && d.k >= kLeastTerms && d.strideBn != 1;
}

device::Choice chooseDots(const ir::OpView& op) {
  device::Choice choice = device::plainChoice(op, "");
  choice.config = kDotsConfig;
  return choice;
}

std::unique_ptr<TiledKernel> makeDots(const ir::OpView& op) {
  return std::make_unique<DotMatMul>(product::normalize(op).d);
}

}  // namespace sluice::devices::cpu
