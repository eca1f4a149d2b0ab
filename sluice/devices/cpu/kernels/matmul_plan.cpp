// Transposed operands are strides of a descriptor, nothing is copied. Batches are folded into the
// rows where the right operand has none; other regular batches are one primitive, irregular
// broadcasts a loop over matrices.
//
// The output is cut into at most kMaxTiles pieces, each one primitive call: along the batch, along
// the columns (the right operand is then packed once, whatever the number of tiles) or along the
// rows. The cut depends on the shape only and is part of the Choice.
//
// With few rows, or a transposed right operand, packing that operand is a large part of the time;
// it is then taken packed, so that the packing of a weight can be hoisted out of the micro-batches.
#include "sluice/devices/cpu/kernels/matmul_plan.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/matmul_blocks.h"
#include "sluice/devices/cpu/kernels/matmul_dots.h"
#include "sluice/devices/cpu/kernels/matmul_panels.h"
#include "sluice/devices/cpu/kernels/matmul_vectors.h"
#include "sluice/devices/cpu/kernels/tuning_options.h"
#include "sluice/devices/cpu/kernels/vector_product.h"
#include "sluice/ops/matmul.h"

namespace sluice::devices::cpu {
namespace product {
namespace {

using dnnl::memory;
using onednn::alignedBytes;

constexpr std::int64_t kMaxTiles = 64;
constexpr double kFlopsPerTile = 6e6;  // below that, handing a tile to a thread costs too much
constexpr std::int64_t kColumnBlock = 64;
constexpr std::int64_t kRowBlock = 32;
constexpr std::string_view kPacked = " packed";

std::int64_t ceilDiv(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// One primitive call: a block of the output.
struct Block {
  std::int64_t batch0 = 0;
  std::int64_t batches = 1;
  std::int64_t row0 = 0;
  std::int64_t rows = 0;
  std::int64_t col0 = 0;
  std::int64_t cols = 0;
};

/// Columns that are packed together.
std::int64_t columnsPerBlock(const memory::desc& b) {
  const dnnl_blocking_desc_t& blocking = b.data.format_desc.blocking;
  std::int64_t columns = 1;
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    columns *= blocking.inner_idxs[i] == 1 ? blocking.inner_blks[i] : 1;
  }
  return columns;
}

/// The descriptor of so many columns of a packed B, from a block's start on.
memory::desc columnsOf(memory::desc b, std::int64_t columns) {
  const std::int64_t block = columnsPerBlock(b);
  b.data.dims[1] = columns;
  b.data.padded_dims[1] = ceilDiv(columns, block) * block;
  return b;
}

dnnl::matmul::primitive_desc describeBlock(const Problem& p, const Block& block) {
  const ops::MatMulDims& d = p.d;
  memory::dims a{block.rows, d.k};
  memory::dims b{d.k, block.cols};
  memory::dims c{block.rows, block.cols};
  memory::dims sa{d.strideAm, d.strideAk};
  memory::dims sb{d.strideBk, d.strideBn};
  // Packed tiles need dense results: they write columns to scratch first.
  memory::dims sc{p.packedB.is_zero() ? d.n : block.cols, 1};
  if (p.batch > 1) {
    const auto prepend = [](memory::dims& dims, std::int64_t value) {
      dims.insert(dims.begin(), value);
    };
    prepend(a, p.batchedA ? block.batches : 1);
    prepend(b, p.batchedB ? block.batches : 1);
    prepend(c, block.batches);
    prepend(sa, d.m * d.k);
    prepend(sb, d.k * d.n);
    prepend(sc, d.m * d.n);
  }
  const dnnl::matmul::desc desc(
      onednn::strided(p.compute, a, sa),
      p.packedB.is_zero() ? onednn::strided(p.compute, b, sb) : columnsOf(p.packedB, block.cols),
      onednn::strided(p.compute, c, sc));
  return {desc, onednn::userScratchpad(), onednn::engine(), true};
}

/// How the output is cut: an axis and the number of pieces.
struct Cut {
  std::string axis;  ///< "loop", "batch", "rows", "cols"
  std::int64_t count = 1;
  bool packedB = false;

  std::string str() const { return fmt::format("{} {}{}", axis, count, packedB ? kPacked : ""); }
};

Cut parseCut(const std::string& text) {
  const std::size_t space = text.find(' ');
  Cut cut{text.substr(0, space), 0, text.ends_with(kPacked)};
  if (space != std::string::npos) {
    std::from_chars(text.data() + space + 1, text.data() + text.size(), cut.count);
  }
  if (cut.count < 1 || cut.count > kMaxTiles ||
      (cut.axis != "loop" && cut.axis != "batch" && cut.axis != "rows" && cut.axis != "cols")) {
    raise<ConfigFileError>(
        "matmul: expected '<loop|batch|rows|cols> <1 to {}> [packed]', got '{}'", kMaxTiles, text);
  }
  return cut;
}

/// The shapes for which packing B pays even if it cannot be hoisted, or costs next to nothing.
bool likesPackedB(const Problem& p) {
  const ops::MatMulDims& d = p.d;
  if (p.batch != 1 || p.loop != 1) {
    return false;
  }
  if (d.strideBn != 1) {  // every tile would transpose it again
    return d.n >= 16 && d.n * d.k >= 4096;
  }
  return d.m >= 32 && d.m <= 128 && d.n >= 512 && d.k >= 256;
}

Cut ruleCut(const Problem& p) {
  const ops::MatMulDims& d = p.d;
  const double flops = 2.0 * static_cast<double>(p.batch * p.loop) * static_cast<double>(d.m) *
                       static_cast<double>(d.n) * static_cast<double>(d.k);
  const auto wanted =
      static_cast<std::int64_t>(std::clamp(flops / kFlopsPerTile, 1.0, double{kMaxTiles}));
  if (p.loop > 1) {
    return {"loop", std::min(wanted, p.loop)};
  }
  if (p.batch > 1) {
    return {"batch", std::min(wanted, p.batch)};
  }
  const std::int64_t columns = std::min(wanted, ceilDiv(d.n, 2 * kColumnBlock));
  if (d.n >= d.m || (columns >= wanted && d.m < 4 * d.n)) {
    return {"cols", columns};
  }
  // Every tile of rows packs B again, which costs more if it is transposed.
  const std::int64_t rows = (d.strideBn == 1 ? 4 : 8) * kRowBlock;
  return {"rows", std::min(wanted, ceilDiv(d.m, rows))};
}

/// Pieces of [0, extent) in whole blocks, all equal but the last.
std::vector<std::pair<std::int64_t, std::int64_t>> pieces(std::int64_t extent,
                                                          std::int64_t count,
                                                          std::int64_t block) {
  const std::int64_t step = ceilDiv(ceilDiv(extent, count), block) * block;
  std::vector<std::pair<std::int64_t, std::int64_t>> result;
  for (std::int64_t at = 0; at < extent; at += step) {
    result.emplace_back(at, std::min(step, extent - at));
  }
  return result;
}

std::vector<Block> blocksOf(const Problem& p, const Cut& cut) {
  const ops::MatMulDims& d = p.d;
  const Block whole{.batches = p.batch, .rows = d.m, .cols = d.n};
  std::vector<Block> blocks;
  const auto add = [&](auto set, std::int64_t extent, std::int64_t block) {
    for (const auto& [at, count] : pieces(extent, cut.count, block)) {
      blocks.push_back(whole);
      set(blocks.back(), at, count);
    }
  };
  if (cut.axis == "batch") {
    add([](Block& b, auto at, auto n) { b.batch0 = at, b.batches = n; }, p.batch, 1);
  } else if (cut.axis == "rows") {
    add([](Block& b, auto at, auto n) { b.row0 = at, b.rows = n; }, d.m, kRowBlock);
  } else if (cut.axis == "cols") {
    add([](Block& b, auto at, auto n) { b.col0 = at, b.cols = n; }, d.n, kColumnBlock);
  } else {
    blocks.push_back(whole);
  }
  return blocks;
}

std::vector<Tile> loopTiles(const Problem& p, const Cut& cut) {
  const ops::MatMulDims& d = p.d;
  const ops::BroadcastIndex batchA(d.batchA, d.batch);
  const ops::BroadcastIndex batchB(d.batchB, d.batch);
  const auto desc = describeBlock(p, {.rows = d.m, .cols = d.n});
  std::vector<Tile> tiles;
  for (const auto& [first, count] : pieces(p.loop, cut.count, 1)) {
    Tile tile{.desc = desc, .output = {first * d.m * d.n, (first + count) * d.m * d.n}};
    for (std::int64_t i = first; i < first + count; ++i) {
      tile.runs.push_back({batchA(i) * d.m * d.k, batchB(i) * d.k * d.n, i * d.m * d.n});
    }
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

/// Whether the library has generated code for every tile, not just its plain loops.
bool isFast(const Problem& p, const Cut& cut) {
  return std::ranges::all_of(blocksOf(p, cut), [&](const Block& block) {
    const auto desc = describeBlock(p, block);
    return desc && std::string_view(desc.impl_info_str()).find("ref") == std::string_view::npos;
  });
}

/// Whether every tile can work on its columns of one packed B.
bool canPackB(Problem p, const Cut& cut) {
  p.packedB = packedFormat(p);
  return !p.packedB.is_zero() && kColumnBlock % columnsPerBlock(p.packedB) == 0 && isFast(p, cut);
}

/// The cut, or by rows or none where oneDNN is slow on columns of a larger matrix.
Cut avoidSlow(const Problem& p, const Cut& cut) {
  if (p.loop > 1 || isFast(p, cut)) {
    return cut;
  }
  const Cut rows{"rows", std::min(cut.count, ceilDiv(p.d.m, kRowBlock))};
  return p.batch == 1 && isFast(p, rows) ? rows : Cut{cut.axis, 1};
}

/// The same cut with a packed B, or with fewer tiles if that is needed for it.
Cut packIfLiked(const Problem& p, const Cut& cut) {
  if (likesPackedB(p)) {
    for (Cut packed{cut.axis, cut.count, true}; packed.count > 0; --packed.count) {
      if (canPackB(p, packed)) {
        return packed;
      }
    }
  }
  return cut;
}

std::vector<Tile> blockTiles(const Problem& p, const Cut& cut) {
  const ops::MatMulDims& d = p.d;
  std::int64_t perColumn = d.strideBn;
  std::int64_t columns = 1;
  if (!p.packedB.is_zero()) {
    columns = columnsPerBlock(p.packedB);
    perColumn = p.packedB.data.format_desc.blocking.strides[1];
  }
  std::vector<Tile> tiles;
  for (const Block& b : blocksOf(p, cut)) {
    Tile tile{.desc = describeBlock(p, b)};
    const std::int64_t c = b.batch0 * d.m * d.n + b.row0 * d.n + b.col0;
    tile.runs.push_back({(p.batchedA ? b.batch0 * d.m * d.k : 0) + b.row0 * d.strideAm,
                         (p.batchedB ? b.batch0 * d.k * d.n : 0) + b.col0 / columns * perColumn,
                         c});
    if (b.cols == d.n) {
      tile.output = {c, c + b.batches * b.rows * d.n};
    }
    tile.staged = p.packedB.is_zero() || b.cols == d.n ? 0 : b.cols;
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

/// Whether a cut of the tuning table can be done.
bool fits(const Problem& p, const Cut& cut) {
  const bool wholeMatrix = p.batch == 1 && p.loop == 1;
  const bool axisFits = wholeMatrix ? cut.axis == "rows" || cut.axis == "cols"
                                    : cut.axis == (p.loop > 1 ? "loop" : "batch");
  return axisFits && (!cut.packedB || (wholeMatrix && canPackB(p, cut)));
}

}  // namespace

memory::desc packedFormat(const Problem& p) {
  const ops::MatMulDims& d = p.d;
  const dnnl::matmul::desc desc(
      onednn::strided(p.compute, {d.m, d.k}, {d.strideAm, d.strideAk}),
      memory::desc({d.k, d.n}, onednn::dataType(p.compute), memory::format_tag::any),
      onednn::strided(p.compute, {d.m, d.n}, {d.n, 1}));
  const dnnl::matmul::primitive_desc made(desc, onednn::userScratchpad(), onednn::engine(), true);
  if (!made) {
    return {};
  }
  const memory::desc b = made.weights_desc();
  const bool packed =
      b.data.format_kind == dnnl_blocked && b.data.format_desc.blocking.inner_nblks > 0;
  return packed ? b : memory::desc();
}

Problem normalize(const ir::OpView& op) {
  Problem p{.d = ops::matmulDims(op)};
  ops::MatMulDims& d = p.d;
  const std::int64_t batch = d.batch.elements();
  const std::int64_t batchA = d.batchA.elements();
  const std::int64_t batchB = d.batchB.elements();
  if (batchB == 1 && batchA == batch && d.strideAk == 1) {
    d.m *= batch;
  } else if ((batchA == batch || batchA == 1) && (batchB == batch || batchB == 1)) {
    p.batch = batch;
    p.batchedA = batchA == batch;
    p.batchedB = batchB == batch;
  } else {
    p.loop = batch;
  }
  if (op.inputs[0].dtype == DType::BF16) {
    p.compute = DType::BF16;
    const onednn::OneThread oneThread;
    if (!describeBlock(p, {.batches = p.batch, .rows = d.m, .cols = d.n})) {
      p.compute = DType::F32;
    }
  }
  return p;
}

bool isOneFloatProduct(const ir::OpView& op) {
  if (op.inputs[0].dtype != DType::F32 || !hasVectorProduct()) {
    return false;
  }
  const Problem p = normalize(op);
  return p.batch == 1 && p.loop == 1;
}

std::string keyOf(const ir::OpView& op) {
  const Problem p = normalize(op);
  return fmt::format("matmul/{}/{}x{}x{}x{}/{}{}",
                     name(op.inputs[0].dtype),
                     p.batch * p.loop,
                     p.d.m,
                     p.d.n,
                     p.d.k,
                     p.d.strideAk == 1 ? 'n' : 't',
                     p.d.strideBn == 1 ? 'n' : 't');
}

std::string chooseCut(const ir::OpView& op, const device::Tuning& tuning) {
  const onednn::OneThread oneThread;
  const Problem problem = normalize(op);
  if (const auto entry = tuning.find(keyOf(op)); entry != tuning.end()) {
    const Cut cut = parseCut(entry->second);
    if (!fits(problem, cut)) {
      raise<ConfigFileError>("{}: '{}' cannot be done", keyOf(op), cut.str());
    }
    return cut.str();
  }
  return packIfLiked(problem, avoidSlow(problem, ruleCut(problem))).str();
}

device::Layout layoutOfB(const Problem& p) {
  if (p.packedB.is_zero()) {
    return device::Layout::plain();
  }
  return onednn::layoutOf(p.d.strideBn == 1 ? p.packedB : p.packedB.permute_axes({1, 0}));
}

Plan planOf(const ir::OpView& op, const std::string& text) {
  const onednn::OneThread oneThread;
  const Cut cut = parseCut(text);
  Plan plan{.problem = normalize(op), .elements = op.outputs[0].shape.elements()};
  if (cut.packedB) {
    plan.problem.packedB = packedFormat(plan.problem);
  }
  const Problem& p = plan.problem;
  SLUICE_CHECK((cut.axis == "loop") == (p.loop > 1), "matmul cut along {}", cut.axis);
  plan.tiles = p.loop > 1 ? loopTiles(p, cut) : blockTiles(p, cut);
  for (const Tile& tile : plan.tiles) {
    SLUICE_CHECK(static_cast<bool>(tile.desc), "oneDNN refuses a tile of a matmul");
    plan.padBytes = std::max(plan.padBytes, alignedBytes(tile.desc.scratchpad_desc().get_size()));
    plan.stageBytes = std::max(
        plan.stageBytes, tile.staged == 0 ? 0 : alignedBytes(tile.desc.dst_desc().get_size()));
  }
  return plan;
}

}  // namespace product

bool supportsMatMul(const ir::OpView& op) {
  const DType dtype = op.inputs[0].dtype;
  if (dtype != DType::F32 && dtype != DType::F16 && dtype != DType::BF16) {
    return false;
  }
  const ops::MatMulDims d = ops::matmulDims(op);
  return d.m > 0 && d.n > 0 && d.k > 0 && d.batch.elements() > 0;
}

TuningOptions matmulTuning(const ir::OpView& op) {
  const onednn::OneThread oneThread;
  TuningOptions options{.key = product::keyOf(op), .values = {}};
  if (needsBlocks(op)) {
    return options;
  }
  const product::Problem p = product::normalize(op);
  const product::Cut rule = product::ruleCut(p);
  if (p.loop == 1 && p.batch == 1) {
    for (const char* axis : {"rows", "cols"}) {
      for (const bool packed : {false, true}) {
        const product::Cut cut{axis, rule.count, packed};
        if (product::fits(p, cut) && (packed || product::isFast(p, cut))) {
          options.values.push_back(cut.str());
        }
      }
    }
  }
  if (canMultiplyDots(op)) {
    options.values.emplace_back(kDotsConfig);
  }
  if (canMultiplyByVectors(op)) {
    options.values.emplace_back(kVectorsConfig);
  }
  if (canMultiplyPanels(op)) {
    options.values.emplace_back(kPanelsConfig);
    options.values.emplace_back(kPackedPanelsConfig);
  }
  return options;
}

}  // namespace sluice::devices::cpu
