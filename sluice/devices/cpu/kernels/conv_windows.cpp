#include "sluice/devices/cpu/kernels/conv_windows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/conv_window_weights.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/panel_product.h"

namespace sluice::devices::cpu {
namespace {

/// Floats of every window that are gathered at a time.
constexpr std::int64_t kDepth = 512;
constexpr std::int64_t kMostRows = 96;
constexpr std::int64_t kLeastRows = 12;
constexpr std::int64_t kMostTiles = 64;  ///< each has its own scratch
/// Blocks that are enough for many threads, so that panels need not be divided, too.
constexpr std::int64_t kEnoughBlocks = 32;
constexpr double kFlopsPerTile = 5e5;  ///< less is not worth a thread
/// Elements of a tile of what follows the products.
constexpr std::int64_t kElementsAfter = 1536;

/// Columns and terms of a sum below which copying windows takes too much of the time.
constexpr std::int64_t kLeastColumns = 48;
constexpr std::int64_t kLeastTerms = 96;

bool isForward(const ir::OpView& op) {
  return convPass(op) == ConvPass::Forward;
}

/// Where the taps of the pixels' windows lie along one axis: -1 outside.
struct AxisWindows {
  std::int64_t taps = 1;
  std::vector<std::int64_t> positions = {};  ///< [pixel, tap]

  std::int64_t at(std::int64_t pixel, std::int64_t tap) const {
    return positions[static_cast<std::size_t>(pixel * taps + tap)];
  }
};

AxisWindows windowsOf(const ops::ConvDims& d, bool forward, std::size_t axis) {
  AxisWindows windows{.taps = d.kernel[axis]};
  const std::int64_t source = forward ? d.in[axis] : d.out[axis];
  for (std::int64_t t = 0; t < (forward ? d.out[axis] : d.in[axis]); ++t) {
    for (std::int64_t k = 0; k < windows.taps; ++k) {
      // A pixel of the input is in the windows of the output's pixels that lie as far before it as
      // its tap is behind the window's begin.
      const std::int64_t at = forward ? d.position(axis, t, k) : t - d.position(axis, 0, k);
      windows.positions.push_back(at >= 0 && at < source ? at : -1);
    }
  }
  return windows;
}

/// One pass from its source, x or dy, to its target.
struct Pass {
  Pass(const ops::ConvDims& d, bool forward)
      : product(d, forward),
        source(forward ? d.in : d.out),
        target(forward ? d.out : d.in),
        kernel(d.kernel),
        summed(forward ? d.inChannels : d.outChannels),
        isPlain(d.kernelSize() == 1 && d.in == d.out && d.padsBefore == ops::Extents{0, 0, 0} &&
                d.strides == ops::Extents{1, 1, 1}),
        joined(forward && d.dilations[2] == 1 && d.kernel[2] * d.inChannels <= kDepth) {
    for (std::size_t axis = 0; axis < windows.size(); ++axis) {
      windows[axis] = windowsOf(d, forward, axis);
    }
  }

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  WindowProduct product;
  ops::Extents source;
  ops::Extents target;
  ops::Extents kernel;
  std::int64_t summed;
  bool isPlain = false;  ///< the windows are the source's pixels themselves
  bool joined = false;   ///< the taps of a line of a window lie side by side in the source
  std::array<AxisWindows, 3> windows = {};
};

/// Terms of the sum that are gathered together: whole taps, or some channels of one.
struct Stretch {
  std::int64_t firstTap = 0;
  std::int64_t endTap = 0;
  std::int64_t channel = 0;
  std::int64_t channels = 0;

  std::int64_t terms() const { return (endTap - firstTap) * channels; }
};

std::vector<Stretch> stretchesOf(const Pass& p) {
  std::vector<Stretch> all;
  if (p.summed > kDepth) {
    const std::int64_t step = ceilDiv(p.summed, ceilDiv(p.summed, kDepth));
    for (std::int64_t tap = 0; tap < p.taps(); ++tap) {
      for (std::int64_t c = 0; c < p.summed; c += step) {
        all.push_back({tap, tap + 1, c, std::min(step, p.summed - c)});
      }
    }
    return all;
  }
  // Lines of taps stay together if they fit: they are copied as one.
  const std::int64_t unit = p.kernel[2] * p.summed <= kDepth ? p.kernel[2] : 1;
  const std::int64_t most = std::max<std::int64_t>(1, kDepth / (p.summed * unit));
  const std::int64_t units = p.taps() / unit;
  const std::int64_t step = ceilDiv(units, ceilDiv(units, most)) * unit;
  for (std::int64_t tap = 0; tap < p.taps(); tap += step) {
    all.push_back({tap, std::min(p.taps(), tap + step), 0, p.summed});
  }
  return all;
}

/// How the pixels are divided into blocks, and blocks and panels among tiles.
struct Tiles {
  std::int64_t rows = 0;  ///< pixels of a block
  std::int64_t blocks = 0;
  std::int64_t count = 0;
  bool wholeBlocks = false;  ///< tiles have all panels of their blocks
};

/// Pieces of work, blocks of rows times panels, that are enough for many threads.
constexpr std::int64_t kEnoughUnits = 64;
constexpr std::int64_t kTeam = 16;

/// Blocks of rows. Where all pixels share many weights, there are only so many as threads want,
/// since each reads the weights anew.
std::int64_t blocksOf(const WindowProduct& product, std::int64_t panels) {
  if (product.weights() >= kManyWeights) {
    const std::int64_t least = ceilDiv(product.pixels, kMostRows);
    const std::int64_t units = ceilDiv(least * panels, kTeam) * kTeam;
    const std::int64_t most = std::max(least, product.pixels / kLeastRows);
    return std::clamp(units / panels, least, most);
  }
  const std::int64_t rows =
      std::clamp(ceilDiv(product.pixels * panels, kEnoughUnits), kLeastRows, kMostRows);
  return evenTiles(ceilDiv(product.pixels, rows));
}

Tiles tilesOf(const WindowProduct& product, const PanelFormat& format) {
  Tiles tiles;
  tiles.rows = ceilDiv(product.pixels, blocksOf(product, format.panels));
  tiles.blocks = ceilDiv(product.pixels, tiles.rows);
  const double flops =
      2.0 * static_cast<double>(product.pixels) * static_cast<double>(product.weights());
  const auto wanted = static_cast<std::int64_t>(
      std::clamp(flops / kFlopsPerTile, 1.0, static_cast<double>(kMostTiles)));
  tiles.wholeBlocks = tiles.blocks >= std::min(wanted, kEnoughBlocks);
  tiles.count = std::min(wanted, tiles.blocks * (tiles.wholeBlocks ? 1 : format.panels));
  return tiles;
}

/// Windows in scratch, in floats. Where tiles have some of the panels each, they share all windows,
/// which are gathered first; else every tile has a part of those of a block.
struct Gathered {
  bool shared = false;
  std::int64_t rowStride = 0;  ///< of shared windows
  std::int64_t perTile = 0;
  std::int64_t floats = 0;
};

Gathered gatheredOf(const Pass& p, const Tiles& tiles) {
  constexpr std::int64_t kLine = 16;
  Gathered gathered;
  if (p.isPlain) {
    return gathered;
  }
  gathered.shared = !tiles.wholeBlocks && p.product.pixels * p.product.terms <= kMostShared;
  if (gathered.shared) {
    // Rows that are a power of two apart would compete for places in the cache.
    gathered.rowStride = ceilDiv(p.product.terms, kLine) * kLine + kLine;
    gathered.floats = p.product.pixels * gathered.rowStride;
    return gathered;
  }
  std::int64_t most = 0;
  for (const Stretch& stretch : stretchesOf(p)) {
    most = std::max(most, stretch.terms());
  }
  gathered.perTile = ceilDiv(tiles.rows * most, kLine) * kLine;
  gathered.floats = gathered.perTile * tiles.count;
  return gathered;
}

class ConvWindows : public TiledKernel {
 public:
  ConvWindows(const ops::ConvDims& d, bool forward)
      : pass_(d, forward),
        format_(windowPanels(pass_.product)),
        tiles_(tilesOf(pass_.product, format_)),
        stretches_(stretchesOf(pass_)),
        gathered_(gatheredOf(pass_, tiles_)),
        sourceOperand_(forward ? 0 : 1) {}

  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    if (gathered_.shared) {
      gatherAll(run);
    }
    const std::int64_t perBlock = tiles_.wholeBlocks ? 1 : format_.panels;
    const std::int64_t units = tiles_.blocks * perBlock;
    run.workers.parallelFor(tiles_.count, [&](std::int64_t tile) {
      const std::int64_t end = (tile + 1) * units / tiles_.count;
      for (std::int64_t unit = tile * units / tiles_.count; unit < end;) {
        const std::int64_t block = unit / perBlock;
        const std::int64_t next = std::min(end, (block + 1) * perBlock);
        if (tiles_.wholeBlocks) {
          multiplyBlock(run, tile, block, {0, format_.panels});
          epilogue(outputOf(block));
        } else {
          multiplyBlock(run, tile, block, {unit - block * perBlock, next - block * perBlock});
        }
        unit = next;
      }
    });
    if (!tiles_.wholeBlocks) {
      // No block is done before all of its panels are; what follows has tiles of its own.
      const std::int64_t elements = pass_.product.pixels * pass_.product.columns;
      const std::int64_t step =
          std::max<std::int64_t>(1, kElementsAfter / pass_.product.columns) * pass_.product.columns;
      run.workers.parallelFor(ceilDiv(elements, step), [&](std::int64_t tile) {
        epilogue({tile * step, std::min(elements, (tile + 1) * step)});
      });
    }
  }

 private:
  struct Panels {
    std::int64_t first;
    std::int64_t end;
  };

  std::int64_t rowsOf(std::int64_t block) const {
    return std::min(tiles_.rows, pass_.product.pixels - block * tiles_.rows);
  }

  OutputTile outputOf(std::int64_t block) const {
    const std::int64_t begin = block * tiles_.rows * pass_.product.columns;
    return {begin, begin + rowsOf(block) * pass_.product.columns};
  }

  void multiplyBlock(const KernelRun& run,
                     std::int64_t tile,
                     std::int64_t block,
                     const Panels& panels) const {
    const auto* source = run.in<float>(sourceOperand_);
    const auto* weights = run.in<float>(1 - sourceOperand_);
    const std::int64_t first = block * tiles_.rows;
    PanelBlock product{
        .result = {run.out<float>(0) + first * pass_.product.columns, pass_.product.columns},
        .rows = rowsOf(block),
        .firstPanel = panels.first,
        .endPanel = panels.end};
    if (pass_.isPlain || gathered_.shared) {
      product.left =
          pass_.isPlain ? LeftMatrix{source + first * pass_.summed, pass_.summed, 1}
                        : LeftMatrix{static_cast<float*>(run.scratch) + first * gathered_.rowStride,
                                     gathered_.rowStride,
                                     1};
      product.panels = weights;
      product.k = pass_.product.terms;
      multiplyPanels(format_, product);
      return;
    }
    float* gathered = static_cast<float*>(run.scratch) + tile * gathered_.perTile;
    for (const Stretch& stretch : stretches_) {
      gather(source, {first, product.rows, stretch.terms()}, stretch, gathered);
      product.left = {gathered, stretch.terms(), 1};
      product.panels =
          weights + (stretch.firstTap * pass_.summed + stretch.channel) * format_.width;
      product.k = stretch.terms();
      multiplyPanels(format_, product);
      product.adds = true;
    }
  }

  /// All windows of all pixels.
  void gatherAll(const KernelRun& run) const {
    const Stretch whole{0, pass_.taps(), 0, pass_.summed};
    const std::int64_t step = itemsPerTile(pass_.product.terms);
    run.workers.parallelFor(ceilDiv(pass_.product.pixels, step), [&](std::int64_t tile) {
      const std::int64_t first = tile * step;
      gather(run.in<float>(sourceOperand_),
             {first, std::min(step, pass_.product.pixels - first), gathered_.rowStride},
             whole,
             static_cast<float*>(run.scratch) + first * gathered_.rowStride);
    });
  }

  struct Rows {
    std::int64_t first;
    std::int64_t count;
    std::int64_t stride;  ///< from one to the next, in floats
  };

  /// The stretch of the windows of some pixels, row by row.
  void gather(const float* source, const Rows& rows, const Stretch& stretch, float* to) const {
    const ops::Extents& target = pass_.target;
    const std::int64_t perImage = target[0] * target[1] * target[2];
    const std::int64_t sourceImage =
        pass_.source[0] * pass_.source[1] * pass_.source[2] * pass_.summed;
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row, to += rows.stride) {
      const std::int64_t pixel = row % perImage;
      gatherWindow(
          source + row / perImage * sourceImage + stretch.channel,
          {pixel / target[2] / target[1], pixel / target[2] % target[1], pixel % target[2]},
          stretch,
          to);
    }
  }

  void gatherWindow(const float* image,
                    const ops::Extents& pixel,
                    const Stretch& stretch,
                    float* to) const {
    const ops::Extents& kernel = pass_.kernel;
    const std::int64_t line = pass_.joined ? kernel[2] : 1;
    for (std::int64_t tap = stretch.firstTap; tap < stretch.endTap;) {
      const std::int64_t first = tap % kernel[2];
      const std::int64_t count = std::min(stretch.endTap - tap, line);
      const std::int64_t i0 = pass_.windows[0].at(pixel[0], tap / kernel[2] / kernel[1]);
      const std::int64_t i1 = pass_.windows[1].at(pixel[1], tap / kernel[2] % kernel[1]);
      if (i0 < 0 || i1 < 0) {
        std::memset(to, 0, bytesOf(count * stretch.channels));
      } else {
        const std::int64_t at = (i0 * pass_.source[1] + i1) * pass_.source[2];
        gatherLine(image + at * pass_.summed, pixel[2], {first, count}, stretch.channels, to);
      }
      to += count * stretch.channels;
      tap += count;
    }
  }

  struct LineTaps {
    std::int64_t first;
    std::int64_t count;
  };

  /// Taps of one line of a window; if there are several, they are side by side in the source, too.
  void gatherLine(const float* line,
                  std::int64_t pixel,
                  const LineTaps& taps,
                  std::int64_t channels,
                  float* to) const {
    const AxisWindows& windows = pass_.windows[2];
    std::int64_t before = 0;
    while (before < taps.count && windows.at(pixel, taps.first + before) < 0) {
      ++before;
    }
    std::int64_t end = taps.count;
    while (end > before && windows.at(pixel, taps.first + end - 1) < 0) {
      --end;
    }
    std::memset(to, 0, bytesOf(before * channels));
    if (end > before) {
      std::memcpy(to + before * channels,
                  line + windows.at(pixel, taps.first + before) * pass_.summed,
                  bytesOf((end - before) * channels));
    }
    std::memset(to + end * channels, 0, bytesOf((taps.count - end) * channels));
  }

  static std::size_t bytesOf(std::int64_t floats) {
    return static_cast<std::size_t>(floats) * sizeof(float);
  }

  Pass pass_;
  PanelFormat format_;
  Tiles tiles_;
  std::vector<Stretch> stretches_;
  Gathered gathered_;
  std::size_t sourceOperand_;
};

}  // namespace

bool canGatherWindows(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  return op.inputs[0].dtype == DType::F32 && hasVectorProduct() && d.groups == 1 &&
         convPass(op) != ConvPass::GradWeight &&
         (isForward(op) || d.strides == ops::Extents{1, 1, 1});
}

bool likesWindows(const ir::OpView& op) {
  if (!canGatherWindows(op)) {
    return false;
  }
  const ops::ConvDims d = ops::convDims(op);
  const std::int64_t columns = isForward(op) ? d.outChannels : d.inChannels;
  const std::int64_t summed = isForward(op) ? d.inChannels : d.outChannels;
  return columns >= kLeastColumns && d.kernelSize() * summed >= kLeastTerms;
}

device::Choice chooseWindows(const ir::OpView& op) {
  const bool forward = isForward(op);
  const std::size_t activation = forward ? 0 : 1;
  const ops::ConvDims d = ops::convDims(op);
  const Pass pass(d, forward);
  const Tiles tiles = tilesOf(pass.product, windowPanels(pass.product));
  device::Choice choice = device::plainChoice(op, "");
  choice.inputs[activation] = activationLayout(op.inputs[activation], true);
  choice.inputs[1 - activation] = onednn::layoutOf(describeWindowWeights(d, forward));
  choice.outputs[0] = activationLayout(op.outputs[0], true);
  choice.scratchBytes = onednn::alignedBytes(
      static_cast<std::size_t>(gatheredOf(pass, tiles).floats) * sizeof(float));
  choice.config = kWindowsConfig;
  return choice;
}

std::unique_ptr<TiledKernel> makeWindows(const ir::OpView& op) {
  return std::make_unique<ConvWindows>(ops::convDims(op), isForward(op));
}

}  // namespace sluice::devices::cpu
