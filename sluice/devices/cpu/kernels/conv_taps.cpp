// The weights are taken as one matrix per tap, [inChannels, outChannels] forward and the other way
// round for the gradient, so that packing them can be hoisted. Forward through one pixel they are
// packed into panels, the gradient through one pixel takes them as they are.
#include "sluice/devices/cpu/kernels/conv_taps.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <vector>

#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/pack_matrix.h"
#include "sluice/devices/cpu/kernels/vector_product.h"

namespace sluice::devices::cpu {
namespace {

/// Elements of the weights up to which they stay in cache while the pixels go by.
constexpr std::int64_t kCachedWeights = 1 << 17;

/// With fewer columns and shorter sums there is nothing but masked loads and stores.
constexpr std::int64_t kLeastColumns = 8;
constexpr std::int64_t kVector = 16;

/// The library's gradient is the slower one where one vector holds the channels of the input, if
/// the sums and the lines are long.
constexpr std::int64_t kLeastChannels = 13;
constexpr std::int64_t kLongSum = 64;
constexpr std::int64_t kLongLine = 24;

/// Without strides the library's code is no quicker on wide images with so short sums per tap.
constexpr std::int64_t kWideImage = 28;
constexpr std::int64_t kShortTap = 64;
constexpr std::int64_t kShortTapOfGradient = 32;
constexpr std::int64_t kColumnsOfGradient = 64;
/// What sums of a few terms only are worth it for.
constexpr std::int64_t kManyColumns = 48;

/// Sums so short over pixels so many are mostly a matter of writing the results, which the library
/// does better.
constexpr std::int64_t kShortSum = 8;
constexpr std::int64_t kManyPixels = 1024;
constexpr std::int64_t kFewPixels = 96;

bool isForward(const ir::OpView& op) {
  return convPass(op) == ConvPass::Forward;
}

bool isPadded(const ops::ConvDims& d) {
  const ops::Extents none = {0, 0, 0};
  return d.padsBefore != none || d.padsAfter != none;
}

/// The weights as they are taken.
dnnl::memory::desc weightsOf(const ops::ConvDims& d, bool forward) {
  const std::int64_t taps = d.kernelSize();
  const std::int64_t perTap = d.inChannels * d.outChannels;
  if (taps == 1 && forward) {
    return {{d.outChannels, d.inChannels},
            dnnl::memory::data_type::f32,
            dnnl::memory::format_tag::AB16b64a};
  }
  return onednn::strided(DType::F32,
                         {d.outChannels, d.inChannels, taps},
                         {forward ? 1 : d.inChannels, forward ? d.outChannels : 1, perTap});
}

/// Positions of the output along one axis, evenly spaced, that see the same taps of the window.
struct AxisRun {
  std::int64_t target = 0;
  std::int64_t targetStep = 1;
  std::int64_t count = 0;
  std::int64_t source = 0;  ///< where the first position's window starts, before the taps' offsets
  std::int64_t sourceStep = 1;

  struct Tap {
    std::int64_t number;
    std::int64_t offset;
    bool operator==(const Tap&) const = default;
  };
  std::vector<Tap> taps = {};

  bool alongImages = false;  ///< whether the rows of products are images, not these positions
};

/// Appends the runs among `count` positions; `all` are the taps, some of which may lie outside.
void appendRuns(AxisRun run,
                std::int64_t count,
                std::int64_t sourceExtent,
                const std::vector<AxisRun::Tap>& all,
                std::vector<AxisRun>& to) {
  const std::int64_t first = run.target;
  run.count = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<AxisRun::Tap> inside;
    std::ranges::copy_if(all, std::back_inserter(inside), [&](const AxisRun::Tap& tap) {
      const std::int64_t at = i * run.sourceStep + tap.offset;
      return at >= 0 && at < sourceExtent;
    });
    if (run.count > 0 && inside != run.taps) {
      to.push_back(run);
      run.count = 0;
    }
    if (run.count == 0) {
      run.target = first + i * run.targetStep;
      run.source = i * run.sourceStep;
      run.taps = std::move(inside);
    }
    ++run.count;
  }
  to.push_back(run);
}

std::vector<AxisRun> runsForward(const ops::ConvDims& d, std::size_t axis) {
  std::vector<AxisRun::Tap> taps;
  for (std::int64_t k = 0; k < d.kernel[axis]; ++k) {
    taps.push_back({k, d.position(axis, 0, k)});
  }
  std::vector<AxisRun> runs;
  appendRuns({.sourceStep = d.strides[axis]}, d.out[axis], d.in[axis], taps, runs);
  return runs;
}

/// Pixels that are a stride apart see the same taps of neighbouring windows.
std::vector<AxisRun> runsOfGradient(const ops::ConvDims& d, std::size_t axis) {
  const std::int64_t stride = d.strides[axis];
  std::vector<AxisRun> runs;
  for (std::int64_t first = 0; first < std::min(stride, d.in[axis]); ++first) {
    std::vector<AxisRun::Tap> taps;
    for (std::int64_t k = 0; k < d.kernel[axis]; ++k) {
      const std::int64_t distance = first - d.position(axis, 0, k);
      if (distance % stride == 0) {
        taps.push_back({k, distance / stride});
      }
    }
    appendRuns({.target = first, .targetStep = stride},
               ceilDiv(d.in[axis] - first, stride),
               d.out[axis],
               taps,
               runs);
  }
  return runs;
}

/// One pass from its source, x or dy, to its target.
struct Pass {
  Pass(const ops::ConvDims& d, bool forward)
      : kernel(d.kernel),
        source(forward ? d.in : d.out),
        target(forward ? d.out : d.in),
        summed(forward ? d.inChannels : d.outChannels),
        columns(forward ? d.outChannels : d.inChannels) {
    for (std::size_t axis = 0; axis < runs.size(); ++axis) {
      runs[axis] = forward ? runsForward(d, axis) : runsOfGradient(d, axis);
    }
  }

  ops::Extents kernel;
  ops::Extents source;
  ops::Extents target;
  std::int64_t summed;
  std::int64_t columns;
  std::array<std::vector<AxisRun>, 3> runs = {};
};

/// The products whose sum a pixel is, one per tap, or per line of taps that lie side by side in
/// both operands.
std::vector<ProductPart> partsOf(const Pass& p,
                                 const AxisRun& r0,
                                 const AxisRun& r1,
                                 const AxisRun& r2) {
  std::vector<ProductPart> parts;
  for (const AxisRun::Tap& t0 : r0.taps) {
    for (const AxisRun::Tap& t1 : r1.taps) {
      for (const AxisRun::Tap& t2 : r2.taps) {
        const std::int64_t pixel = (t0.offset * p.source[1] + t1.offset) * p.source[2] + t2.offset;
        const std::int64_t tap = (t0.number * p.kernel[1] + t1.number) * p.kernel[2] + t2.number;
        const ProductPart part{pixel * p.summed, tap * p.summed * p.columns, p.summed};
        if (!parts.empty() && parts.back().left + parts.back().k == part.left &&
            parts.back().right + parts.back().k * p.columns == part.right) {
          parts.back().k += part.k;
        } else {
          parts.push_back(part);
        }
      }
    }
  }
  return parts;
}

/// About the time of a product of so many rows, in multiply-adds of vectors: few of them wait for
/// each other's results.
double timeOf(const Pass& p, std::int64_t rows) {
  constexpr std::int64_t kInFlight = 4;
  constexpr double kPerCall = 100;
  const std::int64_t vectors = ceilDiv(p.columns, kVector);
  const std::int64_t terms = p.summed * p.kernel[0] * p.kernel[1] * p.kernel[2];
  return kPerCall + static_cast<double>(std::max(rows * vectors, kInFlight) * terms);
}

/// Whether the rows of a product are better one pixel of all images than a run of pixels of one.
/// Memory likes them less.
bool likesImages(const Pass& p, const AxisRun& run, std::int64_t images) {
  constexpr double kLeastGain = 1.3;
  const double pixels = static_cast<double>(run.count) * timeOf(p, images);
  return p.kernel != ops::Extents{1, 1, 1} &&
         kLeastGain * pixels < timeOf(p, run.count) * static_cast<double>(images);
}

/// Tiles of less work are not worth a thread.
constexpr double kFlopsPerTile = 5e5;
constexpr double kMostTiles = 256;
/// Fewer rows of a product take long for reading its right operand.
constexpr std::int64_t kLeastRows = 12;

std::int64_t wantedTiles(const ops::ConvDims& d) {
  const double flops = 2.0 * static_cast<double>(d.batch * d.outSize()) *
                       static_cast<double>(d.inChannels * d.outChannels * d.kernelSize());
  return static_cast<std::int64_t>(std::clamp(flops / kFlopsPerTile, 1.0, kMostTiles));
}

class ConvTaps : public TiledKernel {
 public:
  ConvTaps(const ops::ConvDims& d, bool forward, std::int64_t tiles)
      : pass_(d, forward),
        batch_(d.batch),
        sourceSize_(forward ? d.inSize() : d.outSize()),
        targetSize_(forward ? d.outSize() : d.inSize()),
        sourceOperand_(forward ? 0 : 1),
        whole_(d.kernelSize() == 1 && !isPadded(d) && d.in == d.out),
        wanted_(wantedTiles(d)),
        step_(ceilDiv(d.batch, tiles)),
        panels_(panelFormat(weightsOf(d, forward))) {
    for (AxisRun& run : pass_.runs[2]) {
      run.alongImages = likesImages(pass_, run, step_);
      alongImages_ = alongImages_ || run.alongImages;
    }
    for (const AxisRun& r0 : pass_.runs[0]) {
      for (const AxisRun& r1 : pass_.runs[1]) {
        for (const AxisRun& r2 : pass_.runs[2]) {
          parts_.push_back(partsOf(pass_, r0, r1, r2));
          hasGaps_ = hasGaps_ || parts_.back().empty();
        }
      }
    }
  }

  /// Ranges of pixels where all are rows of one matrix, images where products go along them, and
  /// else some lines of an image.
  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    if (whole_) {
      runPixels(run, epilogue);
    } else if (alongImages_) {
      runImages(run, epilogue);
    } else {
      runLines(run, epilogue);
    }
  }

 private:
  /// Pixels that are rows of one product, by their numbers in source and target.
  struct Rows {
    std::int64_t source = 0;
    std::int64_t target = 0;
    std::int64_t count = 0;
    std::int64_t sourceStep = 1;
    std::int64_t targetStep = 1;
    // Several lines of such rows, and how far apart they are.
    std::int64_t lines = 1;
    std::int64_t sourceLine = 0;
    std::int64_t targetLine = 0;
  };

  /// Lines [first, end) of the middle axis.
  struct Lines {
    std::int64_t first = 0;
    std::int64_t end = 0;
  };

  void runPixels(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) const {
    const std::int64_t pixels = batch_ * targetSize_;
    const std::int64_t most = std::max<std::int64_t>(1, pixels / kLeastRows);
    const std::int64_t step = ceilDiv(pixels, evenTiles(std::min(wanted_, most)));
    run.workers.parallelFor(ceilDiv(pixels, step), [&](std::int64_t tile) {
      const std::int64_t first = tile * step;
      const std::int64_t count = std::min(step, pixels - first);
      multiply(run, {first, first, count}, 0);
      epilogue({first * pass_.columns, (first + count) * pass_.columns});
    });
  }

  void runImages(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) const {
    const std::int64_t perImage = targetSize_ * pass_.columns;
    const Lines all{0, pass_.target[1]};
    run.workers.parallelFor(ceilDiv(batch_, step_), [&](std::int64_t tile) {
      const std::int64_t first = tile * step_;
      const std::int64_t end = std::min(batch_, first + step_);
      clear(run, first * perImage, end * perImage);
      for (std::int64_t image = first; image < end; ++image) {
        multiplyImages(run, image, 1, all, false);
      }
      multiplyImages(run, first, end - first, all, true);
      epilogue({first * perImage, end * perImage});
    });
  }

  void runLines(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) const {
    const std::int64_t perImage = targetSize_ * pass_.columns;
    const std::int64_t lines = pass_.target[1];
    // Lines of several planes do not follow each other.
    const std::int64_t perTile =
        pass_.target[0] > 1 ? lines : ceilDiv(lines, ceilDiv(wanted_, batch_));
    const std::int64_t tiles = ceilDiv(lines, perTile);
    run.workers.parallelFor(batch_ * tiles, [&](std::int64_t tile) {
      const std::int64_t image = tile / tiles;
      const Lines own{tile % tiles * perTile, std::min(lines, (tile % tiles + 1) * perTile)};
      const std::int64_t begin = image * perImage + own.first * (perImage / lines);
      const std::int64_t end =
          tiles == 1 ? begin + perImage : begin + (own.end - own.first) * (perImage / lines);
      clear(run, begin, end);
      multiplyImages(run, image, 1, own, false);
      epilogue({begin, end});
    });
  }

  /// Pixels that no window meets stay zero.
  void clear(const KernelRun& run, std::int64_t begin, std::int64_t end) const {
    if (hasGaps_) {
      std::fill(run.out<float>(0) + begin, run.out<float>(0) + end, 0.0F);
    }
  }

  /// The runs that go along images, or those that do not.
  void multiplyImages(const KernelRun& run,
                      std::int64_t image,
                      std::int64_t images,
                      const Lines& lines,
                      bool alongImages) const {
    std::size_t parts = 0;
    const std::size_t perLine = pass_.runs[2].size();
    for (const AxisRun& r0 : pass_.runs[0]) {
      for (const AxisRun& whole : pass_.runs[1]) {
        const AxisRun r1 = part(whole, lines);
        const std::int64_t sourceLine = r1.sourceStep * pass_.source[2];
        const std::int64_t targetLine = r1.targetStep * pass_.target[2];
        for (std::int64_t i0 = 0; i0 < r0.count && r1.count > 0; ++i0) {
          Rows line{image * sourceSize_ +
                        ((r0.source + i0 * r0.sourceStep) * pass_.source[1] + r1.source) *
                            pass_.source[2],
                    image * targetSize_ +
                        ((r0.target + i0 * r0.targetStep) * pass_.target[1] + r1.target) *
                            pass_.target[2],
                    images};
          if (perLine == 1 && !alongImages) {
            line.lines = r1.count;
            line.sourceLine = sourceLine;
            line.targetLine = targetLine;
            multiplyLine(run, line, parts, false);
            continue;
          }
          for (std::int64_t i1 = 0; i1 < r1.count; ++i1) {
            multiplyLine(run, line, parts, alongImages);
            line.source += sourceLine;
            line.target += targetLine;
          }
        }
        parts += perLine;
      }
    }
  }

  /// The positions of a run that are among the lines; its taps are not needed any more.
  static AxisRun part(const AxisRun& run, const Lines& lines) {
    AxisRun own{.target = run.target,
                .targetStep = run.targetStep,
                .source = run.source,
                .sourceStep = run.sourceStep};
    const std::int64_t skipped =
        std::max<std::int64_t>(0, ceilDiv(lines.first - run.target, run.targetStep));
    const std::int64_t end =
        std::clamp<std::int64_t>(ceilDiv(lines.end - run.target, run.targetStep), 0, run.count);
    own.target += skipped * run.targetStep;
    own.source += skipped * run.sourceStep;
    own.count = std::max<std::int64_t>(0, end - skipped);
    return own;
  }

  /// `line`: where it starts, and in how many images, or how many lines are alike.
  void multiplyLine(const KernelRun& run,
                    const Rows& line,
                    std::size_t parts,
                    bool alongImages) const {
    for (const AxisRun& r : pass_.runs[2]) {
      const std::size_t own = parts++;
      if (r.alongImages != alongImages || parts_[own].empty()) {
        continue;
      }
      Rows rows = line;
      rows.source += r.source;
      rows.target += r.target;
      rows.count = r.count;
      rows.sourceStep = r.sourceStep;
      rows.targetStep = r.targetStep;
      if (!alongImages) {
        multiply(run, rows, own);
        continue;
      }
      rows = {rows.source, rows.target, line.count, sourceSize_, targetSize_};
      for (std::int64_t i = 0; i < r.count; ++i) {
        multiply(run, rows, own);
        rows.source += r.sourceStep;
        rows.target += r.targetStep;
      }
    }
  }

  void multiply(const KernelRun& run, const Rows& rows, std::size_t parts) const {
    const auto* weights = run.in<float>(1 - sourceOperand_);
    multiplyParts(
        {.left = {run.in<float>(sourceOperand_) + rows.source * pass_.summed,
                  rows.sourceStep * pass_.summed,
                  1},
         .right = panels_
                      ? RightMatrix{weights, panels_->width, panels_->width, panels_->panelStride}
                      : RightMatrix{weights, pass_.columns, pass_.columns, 0},
         .result = {run.out<float>(0) + rows.target * pass_.columns,
                    rows.targetStep * pass_.columns},
         .extents = {rows.count, pass_.columns},
         .parts = parts_[parts],
         .count = rows.lines,
         .leftStep = rows.sourceLine * pass_.summed,
         .resultStep = rows.targetLine * pass_.columns});
  }

  Pass pass_;
  std::int64_t batch_;
  std::int64_t sourceSize_;
  std::int64_t targetSize_;
  std::size_t sourceOperand_;
  bool whole_;           ///< windows of one pixel that meet every pixel: all are rows of one matrix
  std::int64_t wanted_;  ///< tiles
  std::int64_t step_;    ///< images of a tile, where products go along them
  bool alongImages_ = false;
  bool hasGaps_ = false;  ///< pixels that no window meets
  std::optional<PanelFormat> panels_;
  std::vector<std::vector<ProductPart>> parts_ = {};  ///< by the runs of all axes
};

/// Where vectors of 16 floats are short of columns or strides keep the library from its best code.
bool likesLongVectors(const ops::ConvDims& d, bool forward) {
  const std::int64_t columns = forward ? d.outChannels : d.inChannels;
  const std::int64_t summed = forward ? d.inChannels : d.outChannels;
  const bool fillsShort = columns > kFewChannels && usesShortVectors(columns);
  const bool strided = d.strides[2] > 1;
  if (forward) {
    const bool wide = !strided && d.out[2] >= kWideImage && summed <= kShortTap &&
                      (summed > kFewChannels || columns >= kManyColumns);
    // So few channels are better read as lines of taps than gathered or padded.
    const bool fewStrided = strided && summed <= kFewChannels && columns >= 2 * kVector;
    return fillsShort || wide || fewStrided || (strided && summed >= 2 * kVector) ||
           (summed == 1 && columns >= kLongSum);
  }
  if (!strided) {
    return fillsShort || (d.in[2] >= kWideImage && summed <= kShortTapOfGradient &&
                          columns >= kColumnsOfGradient);
  }
  return summed >= (fillsShort ? 2 * kVector : kLongSum) && (fillsShort || columns >= 2 * kVector);
}

}  // namespace

bool canMultiplyTaps(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  return op.inputs[0].dtype == DType::F32 && hasVectorProduct() && d.groups == 1 &&
         convPass(op) != ConvPass::GradWeight;
}

bool likesTaps(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  if (!canMultiplyTaps(op) || likesPlain(op) ||
      d.inChannels * d.outChannels * d.kernelSize() > kCachedWeights) {
    return false;
  }
  const std::int64_t columns = isForward(op) ? d.outChannels : d.inChannels;
  const std::int64_t summed = isForward(op) ? d.inChannels : d.outChannels;
  if (d.kernelSize() == 1) {
    // Few pixels make too few tiles; windows are also divided by their columns.
    if (isForward(op) && d.batch * d.outSize() < kFewPixels && summed >= kLongSum &&
        columns >= kManyColumns) {
      return false;
    }
    if (isForward(op) && summed <= kShortSum && d.batch * d.outSize() >= kManyPixels) {
      return false;
    }
    return !isPadded(d) && (columns >= kLeastColumns || summed >= kLeastColumns) &&
           (isForward(op) || columns > kFewChannels);
  }
  if (!isForward(op) && columns <= kFewChannels) {
    return hasLongVectors();
  }
  if (!isForward(op) && columns >= kLeastChannels && columns <= kVector && summed >= kLongSum &&
      d.out[2] >= kLongLine) {
    return true;
  }
  return hasLongVectors() && likesLongVectors(d, isForward(op));
}

device::Choice chooseTaps(const ir::OpView& op) {
  const bool forward = isForward(op);
  const std::size_t activation = forward ? 0 : 1;
  device::Choice choice = device::plainChoice(op, "");
  choice.inputs[activation] = activationLayout(op.inputs[activation], true);
  const ops::ConvDims d = ops::convDims(op);
  if (forward || d.kernelSize() > 1) {
    choice.inputs[1 - activation] = onednn::layoutOf(weightsOf(d, forward));
  }
  choice.outputs[0] = activationLayout(op.outputs[0], true);
  choice.config = kTapsConfig;
  return choice;
}

std::unique_ptr<TiledKernel> makeTaps(const ir::OpView& op) {
  return std::make_unique<ConvTaps>(ops::convDims(op), isForward(op), convTiles(op));
}

}  // namespace sluice::devices::cpu
