// A block of the result stays in cache while the sums run: for each stretch of k, that part of the
// right operand is widened once, and strips of rows of the left one are widened and multiplied by
// it. Every element is one chain of multiply-adds in the order of k, so its bits depend neither on
// the blocks nor on the tiles, which are functions of the shape alone.
#include "sluice/devices/cpu/kernels/matmul_blocks.h"

#include <algorithm>

#include <hwy/cache_control.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/blocks.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/matmul_plan.h"
#include "sluice/devices/cpu/kernels/pack_matrix.h"
#include "sluice/devices/cpu/kernels/vector_product.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::int64_t kMaxTiles = 4;    // each has its own scratch
constexpr double kFlopsPerTile = 1.2e7;  // below that, handing a tile to a thread costs too much
constexpr std::int64_t kRows = 256;
constexpr std::int64_t kColumns = 128;
constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kStrip = 64;  // rows of the left operand that are widened together
constexpr std::int64_t kVector = 16;
constexpr std::int64_t kLinesAhead = 8;
constexpr std::int64_t kFetched = 32;  // elements of a line of the cache

/// The pieces of an extent: all equal but the last, whole multiples of `unit`.
std::int64_t equalPieces(std::int64_t extent, std::int64_t count, std::int64_t unit) {
  return std::min(extent, ceilDiv(ceilDiv(extent, count), unit) * unit);
}

/// How a product is cut; the parts of a tile's scratch are in floats.
struct Blocks {
  explicit Blocks(const product::Problem& p)
      : d(p.d),
        matrices(p.batch * p.loop),
        columns(equalPieces(d.n, ceilDiv(d.n, kColumns), kVector)),
        depth(equalPieces(d.k, ceilDiv(d.k, kDepth), 1)),
        columnBlocks(ceilDiv(d.n, columns)) {
    const double flops = 2.0 * static_cast<double>(matrices) * static_cast<double>(d.m) *
                         static_cast<double>(d.n) * static_cast<double>(d.k);
    const auto wanted =
        static_cast<std::int64_t>(std::clamp(flops / kFlopsPerTile, 1.0, double{kMaxTiles}));
    const std::int64_t least = matrices * ceilDiv(d.m, kRows);
    wholeRows = least >= wanted;
    const std::int64_t cuts = ceilDiv(wanted, wholeRows ? matrices : least * columnBlocks);
    rows = equalPieces(d.m, ceilDiv(ceilDiv(d.m, kRows), cuts) * cuts, kVector);
    rowBlocks = ceilDiv(d.m, rows);
    tiles = std::min(wanted, matrices * rowBlocks * (wholeRows ? 1 : columnBlocks));
    strip = std::min(rows, kStrip);
    right = alignedFloats(rows * columns);
    left = right + alignedFloats(depth * columns);
    gathered = left + alignedFloats(strip * depth);
    perTile = gathered + (d.strideBn == 1 ? 0 : alignedFloats(std::min(columns, kVector) * depth));
  }

  static std::int64_t alignedFloats(std::int64_t count) {
    return ceilDiv(count, kVector) * kVector;
  }
  std::size_t scratchBytes() const {
    return static_cast<std::size_t>(tiles * perTile) * sizeof(float);
  }

  ops::MatMulDims d;
  std::int64_t matrices;
  std::int64_t columns;
  std::int64_t depth;
  std::int64_t columnBlocks;
  std::int64_t rows = 0;
  std::int64_t rowBlocks = 0;
  bool wholeRows = false;  ///< tiles are whole rows of the result, else blocks of columns as well
  std::int64_t tiles = 0;
  std::int64_t strip = 0;
  std::int64_t right = 0;     ///< after the block of the result
  std::int64_t left = 0;      ///< a strip of it
  std::int64_t gathered = 0;  ///< rows of a transposed right operand
  std::int64_t perTile = 0;
};

class BlockMatMul : public TiledKernel {
 public:
  BlockMatMul(DType storage, const product::Problem& p)
      : load_(loadFunction(storage)),
        store_(storeFunction(storage)),
        blocks_(p),
        d_(blocks_.d),
        toA_(d_.batchA, d_.batch),
        toB_(d_.batchB, d_.batch) {}

  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    const std::int64_t all = blocks_.matrices * blocks_.rowBlocks;
    const std::int64_t perRows = blocks_.wholeRows ? 1 : blocks_.columnBlocks;
    run.workers.parallelFor(blocks_.tiles, [&](std::int64_t tile) {
      float* own = static_cast<float*>(run.scratch) + tile * blocks_.perTile;
      const std::int64_t end = (tile + 1) * all * perRows / blocks_.tiles;
      for (std::int64_t i = tile * all * perRows / blocks_.tiles; i < end; ++i) {
        if (!blocks_.wholeRows) {
          multiplyBlock(run, own, placeOf(i / perRows, i % perRows));
          continue;
        }
        for (std::int64_t column = 0; column < blocks_.columnBlocks; ++column) {
          multiplyBlock(run, own, placeOf(i, column));
        }
        epilogue(outputOf(i));
      }
    });
    if (!blocks_.wholeRows) {
      run.workers.parallelFor(all, [&](std::int64_t i) { epilogue(outputOf(i)); });
    }
  }

 private:
  /// A block of the result.
  struct Place {
    std::int64_t matrix = 0;
    std::int64_t row = 0;
    std::int64_t rows = 0;
    std::int64_t column = 0;
    std::int64_t columns = 0;
  };

  Place placeOf(std::int64_t rowBlock, std::int64_t columnBlock) const {
    const std::int64_t row = rowBlock % blocks_.rowBlocks * blocks_.rows;
    const std::int64_t column = columnBlock * blocks_.columns;
    return {.matrix = rowBlock / blocks_.rowBlocks,
            .row = row,
            .rows = std::min(blocks_.rows, d_.m - row),
            .column = column,
            .columns = std::min(blocks_.columns, d_.n - column)};
  }

  OutputTile outputOf(std::int64_t rowBlock) const {
    const Place at = placeOf(rowBlock, 0);
    const std::int64_t begin = (at.matrix * d_.m + at.row) * d_.n;
    return {begin, begin + at.rows * d_.n};
  }

  void multiplyBlock(const KernelRun& run, float* own, const Place& at) const {
    const auto* a = run.in<std::uint16_t>(0) + toA_(at.matrix) * d_.m * d_.k + at.row * d_.strideAm;
    const auto* b =
        run.in<std::uint16_t>(1) + toB_(at.matrix) * d_.k * d_.n + at.column * d_.strideBn;
    for (std::int64_t first = 0; first < d_.k; first += blocks_.depth) {
      const std::int64_t depth = std::min(blocks_.depth, d_.k - first);
      widenRight(b + first * d_.strideBk, own, at.columns, depth);
      for (std::int64_t row = 0; row < at.rows; row += blocks_.strip) {
        const std::int64_t rows = std::min(blocks_.strip, at.rows - row);
        const LeftMatrix left =
            widenLeft(a + row * d_.strideAm + first * d_.strideAk, own, rows, depth);
        (first == 0 ? multiplyRows : addRows)(left,
                                              {own + blocks_.right, at.columns, at.columns, 0},
                                              {own + row * at.columns, at.columns},
                                              {rows, at.columns, depth});
      }
    }
    auto* c = run.out<std::uint16_t>(0) + (at.matrix * d_.m + at.row) * d_.n + at.column;
    for (std::int64_t row = 0; row < at.rows; ++row) {
      store_({.in = {own + row * at.columns}, .out = c + row * d_.n, .n = at.columns});
    }
  }

  /// Lines of so many columns, close together; those to come are fetched meanwhile, as they may lie
  /// far apart.
  void widen(const std::uint16_t* from,
             std::int64_t stride,
             float* to,
             const MatrixExtents& lines) const {
    for (std::int64_t i = 0; i < lines.rows; ++i) {
      const std::uint16_t* ahead = from + std::min(i + kLinesAhead, lines.rows - 1) * stride;
      for (std::int64_t j = 0; j < lines.columns; j += kFetched) {
        hwy::Prefetch(ahead + j);
      }
      load_({.in = {from + i * stride}, .out = to + i * lines.columns, .n = lines.columns});
    }
  }

  /// To [depth, columns].
  void widenRight(const std::uint16_t* b,
                  float* own,
                  std::int64_t columns,
                  std::int64_t depth) const {
    float* to = own + blocks_.right;
    if (d_.strideBn == 1) {
      widen(b, d_.strideBk, to, {depth, columns});
      return;
    }
    float* gathered = own + blocks_.gathered;
    for (std::int64_t column = 0; column < columns; column += kVector) {
      const std::int64_t count = std::min(kVector, columns - column);
      widen(b + column * d_.strideBn, d_.strideBn, gathered, {count, depth});
      transposeMatrix({count, depth, depth}, gathered, to + column, columns);
    }
  }

  /// In the order of the operand's storage.
  LeftMatrix widenLeft(const std::uint16_t* a,
                       float* own,
                       std::int64_t rows,
                       std::int64_t depth) const {
    float* to = own + blocks_.left;
    if (d_.strideAk == 1) {
      widen(a, d_.strideAm, to, {rows, depth});
      return {to, depth, 1};
    }
    widen(a, d_.strideAk, to, {depth, rows});
    return {to, 1, rows};
  }

  BlockFunction load_;
  BlockFunction store_;
  Blocks blocks_;
  ops::MatMulDims d_;
  ops::BroadcastIndex toA_;
  ops::BroadcastIndex toB_;
};

}  // namespace

bool needsBlocks(const ir::OpView& op) {
  return product::normalize(op).compute != op.inputs[0].dtype;
}

device::Choice chooseBlocks(const ir::OpView& op) {
  device::Choice choice = device::plainChoice(op, "");
  choice.config = kBlocksConfig;
  choice.scratchBytes = Blocks(product::normalize(op)).scratchBytes();
  return choice;
}

std::unique_ptr<TiledKernel> makeBlocks(const ir::OpView& op, const device::Choice& choice) {
  if (!needsBlocks(op) || chooseBlocks(op).scratchBytes != choice.scratchBytes) {
    raise<Unsupported>("matmul: this oneDNN does not do what was planned");
  }
  return std::make_unique<BlockMatMul>(op.inputs[0].dtype, product::normalize(op));
}

}  // namespace sluice::devices::cpu
