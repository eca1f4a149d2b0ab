#include "sluice/devices/cpu/kernels/matmul_panels.h"

#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/matmul_plan.h"
#include "sluice/devices/cpu/kernels/panel_product.h"

namespace sluice::devices::cpu {
namespace {

/// With fewer rows a product is mostly the reading of its right operand.
constexpr std::int64_t kLeastRows = 12;
constexpr std::int64_t kLeastColumns = 16;
/// Rows for which packing the right operand takes a tenth of the time: a weight is better packed
/// once for all micro-batches.
constexpr std::int64_t kFewRows = 128;
/// Elements of a transposed right operand from which on it is taken packed.
constexpr std::int64_t kLargeRight = 4096;

/// Rows of the left operand that are transposed together: lines of the cache.
constexpr std::int64_t kTransposed = 32;

/// Elements of an operand that stay in cache in any order: they are not worth moving.
constexpr std::int64_t kCached = 1 << 16;
/// Unless so many rows are multiplied by them.
constexpr std::int64_t kManyRows = 256;

/// The panels of the right operand. One that is taken as it is has them side by side.
PanelFormat formatOf(const ops::MatMulDims& d, bool packed) {
  PanelFormat format = panelsOf(d.k, d.n);
  if (!packed && d.strideBn == 1 && d.n * d.k <= kCached && d.m <= kManyRows) {
    format.plain = true;
    format.rowStride = d.n;
    format.panelStride = format.width;
  }
  return format;
}

/// The panels as oneDNN describes them, for the matrix [k, n].
dnnl::memory::desc describePanels(const ops::MatMulDims& d) {
  using Tag = dnnl::memory::format_tag;
  constexpr std::array kTags = {Tag::BA16a16b, Tag::BA16a32b, Tag::BA16a48b, Tag::BA16a64b};
  const auto tag = kTags[static_cast<std::size_t>(panelWidth(d.n) / 16 - 1)];
  return {{d.k, d.n}, dnnl::memory::data_type::f32, tag};
}

device::Layout layoutOfPanels(const ops::MatMulDims& d) {
  const dnnl::memory::desc desc = describePanels(d);
  return onednn::layoutOf(d.strideBn == 1 ? desc : desc.permute_axes({1, 0}));
}

/// Both operands in scratch, where they do not come as they are wanted.
struct ScratchPlan {
  std::int64_t left = 0;        ///< where it starts, in floats
  std::int64_t leftStride = 0;  ///< from row to row; 0: the left operand is taken as it is
  std::size_t bytes = 0;
};

ScratchPlan scratchOf(const ops::MatMulDims& d, bool packed) {
  // Rows that are a power of two apart would compete for places in the cache.
  constexpr std::int64_t kApart = 16;
  const PanelFormat format = formatOf(d, packed);
  ScratchPlan plan;
  plan.left = packed || format.plain ? 0 : format.panels * format.panelStride;
  plan.leftStride =
      d.strideAk == 1 || d.m * d.k <= kCached ? 0 : ceilDiv(d.k, kApart) * kApart + kApart;
  plan.bytes = onednn::alignedBytes(static_cast<std::size_t>(plan.left + plan.leftStride * d.m) *
                                    sizeof(float));
  return plan;
}

class PanelMatMul : public TiledKernel {
 public:
  PanelMatMul(const ops::MatMulDims& d, bool packed)
      : d_(d),
        packed_(packed),
        format_(formatOf(d, packed)),
        tiles_(panelTiles(d.m, format_)),
        scratch_(scratchOf(d, packed)) {}

  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    pack(run);
    const bool wholeRows = tiles_.panelGroups == 1;
    // Neighbouring tiles share their panels.
    run.workers.parallelFor(tiles_.count(), [&](std::int64_t tile) {
      const std::int64_t block = tile % tiles_.rowBlocks;
      multiply(run, block, tile / tiles_.rowBlocks);
      if (wholeRows) {
        epilogue(outputOf(block));
      }
    });
    if (!wholeRows) {
      finish(run, epilogue);
    }
  }

 private:
  std::int64_t rowsOf(std::int64_t block) const {
    return std::min(tiles_.rows, d_.m - block * tiles_.rows);
  }

  OutputTile outputOf(std::int64_t block) const {
    const std::int64_t begin = block * tiles_.rows * d_.n;
    return {begin, begin + rowsOf(block) * d_.n};
  }

  float* right(const KernelRun& run) const { return static_cast<float*>(run.scratch); }
  float* left(const KernelRun& run) const {
    return static_cast<float*>(run.scratch) + scratch_.left;
  }

  /// The panels of the right operand and the rows of a transposed left one.
  void pack(const KernelRun& run) const {
    const std::int64_t panels = packed_ || format_.plain ? 0 : format_.panels;
    const std::int64_t blocks = scratch_.leftStride == 0 ? 0 : ceilDiv(d_.m, kTransposed);
    run.workers.parallelFor(panels + blocks, [&](std::int64_t i) {
      if (i < panels) {
        packRight(run, i);
      } else {
        packLeft(run, i - panels);
      }
    });
  }

  void packRight(const KernelRun& run, std::int64_t panel) const {
    const auto* b = run.in<float>(1);
    if (d_.strideBn == 1) {
      copyPanel(format_, b, d_.n, right(run), panel);
    } else {
      packPanel(format_, b, right(run), panel);
    }
  }

  void packLeft(const KernelRun& run, std::int64_t block) const {
    const std::int64_t first = block * kTransposed;
    transposeMatrix({d_.k, std::min(kTransposed, d_.m - first), d_.m},
                    run.in<float>(0) + first,
                    left(run) + first * scratch_.leftStride,
                    scratch_.leftStride);
  }

  void multiply(const KernelRun& run, std::int64_t block, std::int64_t group) const {
    const std::int64_t first = block * tiles_.rows;
    const LeftMatrix whole = scratch_.leftStride == 0
                                 ? LeftMatrix{run.in<float>(0), d_.strideAm, d_.strideAk}
                                 : LeftMatrix{left(run), scratch_.leftStride, 1};
    multiplyPanels(format_,
                   {.left = {whole.data + first * whole.rowStride, whole.rowStride, whole.kStride},
                    .panels = packed_ || format_.plain ? run.in<float>(1) : right(run),
                    .result = {run.out<float>(0) + first * d_.n, d_.n},
                    .rows = rowsOf(block),
                    .k = d_.k,
                    .firstPanel = group * tiles_.panels,
                    .endPanel = std::min(format_.panels, (group + 1) * tiles_.panels)});
  }

  /// The epilogue where tiles were not ranges of the output.
  void finish(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) const {
    const std::int64_t step = ceilDiv(d_.m, tiles_.count());
    run.workers.parallelFor(ceilDiv(d_.m, step), [&](std::int64_t i) {
      epilogue({i * step * d_.n, std::min(d_.m, (i + 1) * step) * d_.n});
    });
  }

  ops::MatMulDims d_;
  bool packed_;
  PanelFormat format_;
  PanelTiles tiles_;
  ScratchPlan scratch_;
};

}  // namespace

bool canMultiplyPanels(const ir::OpView& op) {
  return product::isOneFloatProduct(op);
}

std::string likedPanels(const ir::OpView& op) {
  if (!canMultiplyPanels(op)) {
    return "";
  }
  const ops::MatMulDims d = product::normalize(op).d;
  if (d.m < kLeastRows || d.n < kLeastColumns) {
    return "";
  }
  const bool packed =
      d.strideBn == 1 ? d.m <= kFewRows && d.n * d.k > kCached : d.n * d.k >= kLargeRight;
  return packed ? kPackedPanelsConfig : kPanelsConfig;
}

device::Choice choosePanels(const ir::OpView& op, const std::string& config) {
  const ops::MatMulDims d = product::normalize(op).d;
  const bool packed = config == kPackedPanelsConfig;
  device::Choice choice = device::plainChoice(op, "");
  choice.config = config;
  choice.scratchBytes = scratchOf(d, packed).bytes;
  if (packed) {
    choice.inputs[1] = layoutOfPanels(d);
  }
  return choice;
}

std::unique_ptr<TiledKernel> makePanels(const ir::OpView& op, const device::Choice& choice) {
  const device::Choice own = choosePanels(op, choice.config);
  if (own.scratchBytes != choice.scratchBytes || own.inputs[1] != choice.inputs[1]) {
    raise<Unsupported>("matmul: this library does not do what was planned");
  }
  return std::make_unique<PanelMatMul>(product::normalize(op).d,
                                       choice.config == kPackedPanelsConfig);
}

}  // namespace sluice::devices::cpu
