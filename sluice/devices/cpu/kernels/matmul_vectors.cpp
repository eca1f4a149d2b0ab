// The rows are cut into tiles, or the panels of a packed right operand; bits do not depend on the
// cut. A transposed right operand that does not come packed is packed first, in scratch.
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
constexpr std::int64_t kLeastColumns = 16;
/// Sums so short that writing so many results takes the time.
constexpr std::int64_t kShortSum = 72;
constexpr std::int64_t kManyResults = 1 << 18;

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

std::int64_t tilesOf(const ops::MatMulDims& d) {
  const double flops =
      2.0 * static_cast<double>(d.m) * static_cast<double>(d.n) * static_cast<double>(d.k);
  return static_cast<std::int64_t>(std::clamp(flops / kFlopsPerTile, 1.0, double{kMaxTiles}));
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
      : d_(d), panels_(panelsOf(d)), step_(rowsPerTile(d)) {}

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

/// The panels of B one after the other, each with all rows: it stays in cache meanwhile.
class PackedVectorMatMul : public TiledKernel {
 public:
  PackedVectorMatMul(const ops::MatMulDims& d, const PanelFormat& panels)
      : d_(d), panels_(panels), tiles_(std::min(tilesOf(d), panels.panels)) {}

  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    const std::int64_t perTile = ceilDiv(panels_.panels, tiles_);
    run.workers.parallelFor(ceilDiv(panels_.panels, perTile), [&](std::int64_t tile) {
      const std::int64_t end = std::min(panels_.panels, (tile + 1) * perTile);
      for (std::int64_t panel = tile * perTile; panel < end; ++panel) {
        multiplyPanel(run, panel);
      }
    });
    const std::int64_t step = ceilDiv(d_.m, tiles_);
    run.workers.parallelFor(ceilDiv(d_.m, step), [&](std::int64_t tile) {
      epilogue({tile * step * d_.n, std::min(d_.m, (tile + 1) * step) * d_.n});
    });
  }

 private:
  void multiplyPanel(const KernelRun& run, std::int64_t panel) const {
    const std::int64_t first = panel * panels_.width;
    multiplyRows({run.in<float>(0), d_.strideAm, d_.strideAk},
                 {run.in<float>(1) + panel * panels_.panelStride, panels_.width, panels_.width, 0},
                 {run.out<float>(0) + first, d_.n},
                 {d_.m, std::min(panels_.width, d_.n - first), d_.k});
  }

  ops::MatMulDims d_;
  PanelFormat panels_;
  std::int64_t tiles_;
};

/// The format of a packed right operand, as a matrix [n, k].
std::optional<PanelFormat> packedPanels(const product::Problem& p) {
  if (p.packedB.is_zero()) {
    return std::nullopt;
  }
  return panelFormat(p.packedB.permute_axes({1, 0}));
}

product::Problem packedProblem(const ir::OpView& op) {
  const onednn::OneThread oneThread;
  product::Problem p = product::normalize(op);
  p.packedB = product::packedFormat(p);
  return p;
}

}  // namespace

bool canMultiplyByVectors(const ir::OpView& op, std::string_view config) {
  if (op.inputs[0].dtype != DType::F32 || !hasVectorProduct()) {
    return false;
  }
  const product::Problem p = product::normalize(op);
  if (p.batch != 1 || p.loop != 1) {
    return false;
  }
  return config != kPackedVectorsConfig || packedPanels(packedProblem(op)).has_value();
}

std::string likedVectors(const ir::OpView& op, const std::string& cut) {
  if (!canMultiplyByVectors(op)) {
    return "";
  }
  if (likesPlain(product::normalize(op).d)) {
    return kVectorsConfig;
  }
  // The library's code would write columns to scratch first.
  const bool staged = cut.starts_with("cols") && cut.ends_with("packed") && cut != "cols 1 packed";
  return staged && canMultiplyByVectors(op, kPackedVectorsConfig) ? kPackedVectorsConfig : "";
}

device::Choice chooseVectors(const ir::OpView& op, const std::string& config) {
  device::Choice choice = device::plainChoice(op, "");
  choice.config = config;
  if (config == kPackedVectorsConfig) {
    choice.inputs[1] = product::layoutOfB(packedProblem(op));
  } else {
    choice.scratchBytes = scratchOf(product::normalize(op).d);
  }
  return choice;
}

std::unique_ptr<TiledKernel> makeVectors(const ir::OpView& op, const device::Choice& choice) {
  if (choice.config == kVectorsConfig) {
    return std::make_unique<VectorMatMul>(product::normalize(op).d);
  }
  const product::Problem p = packedProblem(op);
  const std::optional<PanelFormat> panels = packedPanels(p);
  if (!panels || product::layoutOfB(p) != choice.inputs[1]) {
    raise<Unsupported>("matmul: this oneDNN does not do what was planned");
  }
  return std::make_unique<PackedVectorMatMul>(p.d, *panels);
}

}  // namespace sluice::devices::cpu
