// The batch is cut into grains of whole images by the shape alone; each has a gradient of its own,
// and these are added in order. Within a grain every element is one chain through its pixels.
#include "sluice/devices/cpu/kernels/conv_grad_lines.h"

#include <algorithm>
#include <vector>

#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/pack_matrix.h"
#include "sluice/devices/cpu/kernels/panel_product.h"

namespace sluice::devices::cpu {
namespace {

/// Pixels of a grain: so long a chain loses no more than sums of other orders do.
constexpr std::int64_t kGrainPixels = 4096;
constexpr std::int64_t kMostGrains = 16;
/// Pixels that are multiplied at a time, so that they stay in cache for all rows of a tile.
constexpr std::int64_t kChunkPixels = 256;
constexpr std::int64_t kMostRows = 256;
constexpr std::int64_t kLeastRows = 24;
/// Tiles that are enough for many threads.
constexpr std::int64_t kEnoughTiles = 64;
/// Channels of the input below which a panel is too narrow.
constexpr std::int64_t kLeastColumns = 48;
constexpr std::int64_t kVector = 16;

struct Grains {
  std::int64_t images = 1;  ///< of a grain
  std::int64_t count = 1;
};

Grains grainsOf(const ops::ConvDims& d) {
  Grains grains;
  grains.images = std::clamp<std::int64_t>(kGrainPixels / d.outSize(), 1, d.batch);
  grains.images = std::max(grains.images, ceilDiv(d.batch, kMostGrains));
  grains.count = ceilDiv(d.batch, grains.images);
  return grains;
}

std::int64_t sumFloats(const ops::ConvDims& d) {
  return ceilDiv(d.outChannels * d.kernelSize() * d.inChannels, kVector) * kVector;
}

/// A chunk of the output's lines of one image, with what of them a tap meets.
struct Chunk {
  std::vector<std::vector<ProductPart>> byTap = {};
};

class ConvGradLines : public Kernel {
 public:
  explicit ConvGradLines(const ops::ConvDims& d)
      : d_(d),
        grains_(grainsOf(d)),
        width_(panelWidth(d.inChannels)),
        panels_(ceilDiv(d.inChannels, width_)) {
    const std::int64_t perRows = grains_.count * d.kernelSize() * panels_;
    const std::int64_t blocks = ceilDiv(kEnoughTiles, perRows);
    rows_ = std::clamp(ceilDiv(d.outChannels, blocks), kLeastRows, kMostRows);
    blocks_ = ceilDiv(d.outChannels, rows_);
    rows_ = ceilDiv(d.outChannels, blocks_);
    const std::int64_t lines = d.out[0] * d.out[1];
    const std::int64_t step = std::clamp<std::int64_t>(kChunkPixels / d.out[2], 1, lines);
    for (std::int64_t line = 0; line < lines; line += step) {
      addChunk(line, std::min(lines, line + step));
    }
  }

  void run(const KernelRun& run) override {
    const std::int64_t tiles = grains_.count * d_.kernelSize() * panels_ * blocks_;
    run.workers.parallelFor(tiles, [&](std::int64_t tile) {
      const std::int64_t block = tile % blocks_;
      const std::int64_t panel = tile / blocks_ % panels_;
      const std::int64_t tap = tile / blocks_ / panels_ % d_.kernelSize();
      sumTile(run, {tile / blocks_ / panels_ / d_.kernelSize(), tap, panel, block});
    });
    const std::int64_t perTile = itemsPerTile(rowFloats());
    run.workers.parallelFor(ceilDiv(d_.outChannels, perTile), [&](std::int64_t tile) {
      for (std::int64_t o = tile * perTile; o < std::min(d_.outChannels, (tile + 1) * perTile);
           ++o) {
        store(run, o);
      }
    });
  }

 private:
  struct Place {
    std::int64_t grain;
    std::int64_t tap;
    std::int64_t panel;
    std::int64_t block;
  };

  std::int64_t rowFloats() const { return d_.kernelSize() * d_.inChannels; }

  float* sum(const KernelRun& run, std::int64_t grain) const {
    return static_cast<float*>(run.scratch) + grain * sumFloats(d_);
  }

  void addChunk(std::int64_t firstLine, std::int64_t endLine) {
    Chunk& chunk = chunks_.emplace_back();
    for (std::int64_t tap = 0; tap < d_.kernelSize(); ++tap) {
      chunk.byTap.emplace_back();
      for (std::int64_t line = firstLine; line < endLine; ++line) {
        addLine(line, tap, chunk.byTap.back());
      }
    }
  }

  /// The pixels of a line whose tap lies inside the image.
  void addLine(std::int64_t line, std::int64_t tap, std::vector<ProductPart>& parts) const {
    const std::int64_t i0 = d_.position(0, line / d_.out[1], tap / d_.kernel[2] / d_.kernel[1]);
    const std::int64_t i1 = d_.position(1, line % d_.out[1], tap / d_.kernel[2] % d_.kernel[1]);
    if (i0 < 0 || i0 >= d_.in[0] || i1 < 0 || i1 >= d_.in[1]) {
      return;
    }
    const auto at = [&](std::int64_t o) { return d_.position(2, o, tap % d_.kernel[2]); };
    std::int64_t first = 0;
    while (first < d_.out[2] && at(first) < 0) {
      ++first;
    }
    std::int64_t end = d_.out[2];
    while (end > first && at(end - 1) >= d_.in[2]) {
      --end;
    }
    if (first == end) {
      return;
    }
    const std::int64_t pixel = (i0 * d_.in[1] + i1) * d_.in[2] + at(first);
    const ProductPart part{
        (line * d_.out[2] + first) * d_.outChannels, pixel * d_.inChannels, end - first};
    const std::int64_t step = d_.strides[2] * d_.inChannels;
    if (!parts.empty() && parts.back().left + parts.back().k * d_.outChannels == part.left &&
        parts.back().right + parts.back().k * step == part.right) {
      parts.back().k += part.k;  // windows of one pixel: lines follow each other
    } else {
      parts.push_back(part);
    }
  }

  void sumTile(const KernelRun& run, const Place& at) const {
    const std::int64_t row = at.block * rows_;
    const std::int64_t column = at.panel * width_;
    const MatrixExtents extents{std::min(rows_, d_.outChannels - row),
                                std::min(width_, d_.inChannels - column)};
    const ResultMatrix result{
        sum(run, at.grain) + row * rowFloats() + at.tap * d_.inChannels + column, rowFloats()};
    bool adds = false;
    const std::int64_t end = std::min(d_.batch, (at.grain + 1) * grains_.images);
    for (std::int64_t image = at.grain * grains_.images; image < end; ++image) {
      const float* dy = run.in<float>(1) + image * d_.outSize() * d_.outChannels + row;
      const float* x = run.in<float>(0) + image * d_.inSize() * d_.inChannels + column;
      for (const Chunk& chunk : chunks_) {
        const std::vector<ProductPart>& parts = chunk.byTap[static_cast<std::size_t>(at.tap)];
        if (parts.empty()) {
          continue;
        }
        multiplyParts({.left = {dy, 1, d_.outChannels},
                       .right = {x, d_.strides[2] * d_.inChannels, width_, 0},
                       .result = result,
                       .extents = extents,
                       .parts = parts,
                       .adds = adds});
        adds = true;
      }
    }
    if (!adds) {  // no pixel meets this tap
      for (std::int64_t r = 0; r < extents.rows; ++r) {
        std::fill_n(result.data + r * result.rowStride, extents.columns, 0.0F);
      }
    }
  }

  /// The weights of one output channel: the sum of the grains, the taps innermost.
  void store(const KernelRun& run, std::int64_t o) const {
    float* total = sum(run, 0) + o * rowFloats();
    for (std::int64_t grain = 1; grain < grains_.count; ++grain) {
      const float* from = sum(run, grain) + o * rowFloats();
      for (std::int64_t i = 0; i < rowFloats(); ++i) {
        total[i] += from[i];
      }
    }
    float* to = run.out<float>(0) + o * rowFloats();
    if (d_.kernelSize() == 1) {
      std::copy_n(total, rowFloats(), to);
    } else {
      transposeMatrix({d_.kernelSize(), d_.inChannels, d_.inChannels}, total, to, d_.kernelSize());
    }
  }

  ops::ConvDims d_;
  Grains grains_;
  std::int64_t width_;
  std::int64_t panels_;
  std::int64_t rows_ = 0;
  std::int64_t blocks_ = 0;
  std::vector<Chunk> chunks_ = {};
};

}  // namespace

bool canMultiplyLines(const ir::OpView& op) {
  return op.inputs[0].dtype == DType::F32 && hasVectorProduct() && ops::convDims(op).groups == 1;
}

bool likesLines(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  return canMultiplyLines(op) && d.inChannels >= kLeastColumns && d.outChannels >= kLeastRows;
}

device::Choice chooseLines(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  device::Choice choice = device::plainChoice(op, "");
  choice.inputs[0] = activationLayout(op.inputs[0], true);
  choice.inputs[1] = activationLayout(op.inputs[1], true);
  choice.scratchBytes = onednn::alignedBytes(
      static_cast<std::size_t>(sumFloats(d) * grainsOf(d).count) * sizeof(float));
  choice.config = kLinesConfig;
  return choice;
}

std::unique_ptr<Kernel> makeLines(const ir::OpView& op) {
  return std::make_unique<ConvGradLines>(ops::convDims(op));
}

}  // namespace sluice::devices::cpu
