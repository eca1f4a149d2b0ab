// The batch is cut into grains by the shape alone; each has a gradient of its own, and these are
// added in order. A grain goes through chunks of its output pixels: lines of one image, or several
// small images. All taps use a chunk while it is in cache; their sums go from and to memory between
// chunks, which long chunks keep rare.
#include "sluice/devices/cpu/kernels/conv_grad_outer.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/pack_matrix.h"
#include "sluice/devices/cpu/kernels/vector_product.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::int64_t kVector = 16;
constexpr std::int64_t kChunkFloats = 65536;  ///< of one operand
constexpr std::int64_t kFewestTerms = 256;
constexpr std::int64_t kMostTerms = 512;
/// Rows of a tap's matrix below which there is too little to compute with what is loaded.
constexpr std::int64_t kFewestRows = 6;
/// The same for merged taps of few channels.
constexpr std::int64_t kFewestMerged = 3;
/// Vectors of a sum below which each waits for the one before.
constexpr std::int64_t kInFlight = 8;
/// Terms per tap below which sums go from and to memory too often to beat the library's code, if
/// the channels of the output fill the library's vectors.
constexpr std::int64_t kTermsPerTap = 8;
constexpr double kLeastFilled = 0.8;

double filled(std::int64_t channels) {
  return static_cast<double>(channels) / static_cast<double>(ceilDiv(channels, kVector) * kVector);
}

/// Whether the vectors run along the channels of dy.
bool alongOutput(const ops::ConvDims& d) {
  const double in = filled(d.inChannels);
  const double out = filled(d.outChannels);
  return in == out ? d.outChannels > d.inChannels : out > in;
}

/// Lines of output pixels, or whole images, that are worked on together.
struct Chunks {
  std::int64_t images = 1;
  std::int64_t lines = 1;  ///< of one image, where a chunk has one
};

Chunks chunksOf(const ops::ConvDims& d) {
  const std::int64_t terms =
      std::clamp(kChunkFloats / std::max(d.inChannels, d.outChannels), kFewestTerms, kMostTerms);
  const std::int64_t lines = d.out[0] * d.out[1];
  if (d.outSize() > terms) {
    const std::int64_t most = std::clamp<std::int64_t>(terms / d.out[2], 1, lines);
    return {.images = 1, .lines = ceilDiv(lines, ceilDiv(lines, most))};
  }
  return {.images = std::min(d.batch, terms / d.outSize()), .lines = lines};
}

/// Whether the taps of a line of the window are taken together, as rows of one product: their
/// pixels lie side by side. So they fill tiles that few channels would not, if there are enough
/// columns.
bool mergesTaps(const ops::ConvDims& d) {
  return alongOutput(d) && d.inChannels < kFewestRows && d.outChannels > 2 * kVector &&
         d.kernel[2] > 1 && d.dilations[2] == 1;
}

std::int64_t sumFloats(const ops::ConvDims& d) {
  return d.kernelSize() * d.inChannels * d.outChannels;
}

std::size_t sumBytes(const ops::ConvDims& d) {
  return onednn::alignedBytes(static_cast<std::size_t>(sumFloats(d)) * sizeof(float));
}

/// Into how many parts the taps of a grain are divided: each reads all of the grain.
std::int64_t tapGroupsOf(const ops::ConvDims& d, std::int64_t grains) {
  constexpr double kFlopsPerTile = 6e6;
  constexpr std::int64_t kMostTiles = 64;
  const double flops = 2.0 * static_cast<double>(d.batch * d.outSize()) *
                       static_cast<double>(sumFloats(d)) / static_cast<double>(grains);
  return static_cast<std::int64_t>(
      std::clamp(flops / kFlopsPerTile, 1.0, static_cast<double>(ceilDiv(kMostTiles, grains))));
}

class ConvGradOuter : public Kernel {
 public:
  ConvGradOuter(const ops::ConvDims& d, std::int64_t grains)
      : d_(d),
        alongOutput_(alongOutput(d)),
        merged_(mergesTaps(d) ? d.kernel[2] : 1),
        chunks_(chunksOf(d)),
        grains_(grains),
        perGrain_(ceilDiv(d.batch, grains)) {
    std::size_t most = 0;
    for (std::int64_t line = 0; line < d.out[0] * d.out[1]; line += chunks_.lines) {
      addTerms(line, std::min(d.out[0] * d.out[1], line + chunks_.lines));
      for (const Taps& taps : terms_.back()) {
        most = std::max(most, taps.size());
      }
    }
    taps_ = static_cast<std::int64_t>(terms_[0].size());
    tapGroups_ = std::min(taps_, tapGroupsOf(d, grains));
    groups_.resize(static_cast<std::size_t>(grains * tapGroups_), std::vector<TermGroup>(most));
  }

  void run(const KernelRun& run) override {
    run.workers.parallelFor(grains_ * tapGroups_, [&](std::int64_t tile) {
      const std::int64_t group = tile % tapGroups_;
      sumGrain(run, tile, {group * taps_ / tapGroups_, (group + 1) * taps_ / tapGroups_});
    });
    run.workers.parallelFor(d_.kernelSize(), [&](std::int64_t tap) { addGrains(run, tap); });
    const std::int64_t perTile = itemsPerTile(d_.kernelSize() * d_.inChannels);
    run.workers.parallelFor(ceilDiv(d_.outChannels, perTile), [&](std::int64_t tile) {
      store(run, tile * perTile, std::min(d_.outChannels, (tile + 1) * perTile));
    });
  }

 private:
  /// Terms in one chunk of some of the taps that are taken together: the others lie outside of the
  /// image. Those of the first image come first.
  struct Terms {
    std::int64_t firstTap = 0;
    std::int64_t endTap = 0;
    std::vector<TermOffsets> list = {};
    std::size_t perImage = 0;
  };
  using Taps = std::vector<Terms>;

  /// The terms of some lines of output pixels.
  void addTerms(std::int64_t firstLine, std::int64_t endLine) {
    terms_.emplace_back();
    for (std::int64_t tap = 0; tap < d_.kernelSize(); tap += merged_) {
      Taps taps;
      for (std::int64_t image = 0; image < chunks_.images; ++image) {
        for (std::int64_t line = firstLine; line < endLine; ++line) {
          addLine(image, line, tap, taps);
        }
        for (Terms& terms : taps) {
          terms.perImage = image == 0 ? terms.list.size() : terms.perImage;
        }
      }
      terms_.back().push_back(std::move(taps));
    }
  }

  void addLine(std::int64_t image, std::int64_t line, std::int64_t tap, Taps& taps) const {
    const std::int64_t i0 = d_.position(0, line / d_.out[1], tap / d_.kernel[2] / d_.kernel[1]);
    const std::int64_t i1 = d_.position(1, line % d_.out[1], tap / d_.kernel[2] % d_.kernel[1]);
    if (i0 < 0 || i0 >= d_.in[0] || i1 < 0 || i1 >= d_.in[1]) {
      return;
    }
    const std::int64_t imageFloats = d_.inSize() * d_.inChannels;
    for (std::int64_t o = 0; o < d_.out[2]; ++o) {
      const std::int64_t i2 = d_.position(2, o, tap % d_.kernel[2]);
      // Taps that are taken together are side by side.
      const std::int64_t first = std::max<std::int64_t>(0, -i2);
      const std::int64_t end = std::min(merged_, d_.in[2] - i2);
      if (first >= end) {
        continue;
      }
      const std::int64_t pixel = (i0 * d_.in[1] + i1) * d_.in[2] + i2;
      const auto x = static_cast<std::int32_t>(image * imageFloats + pixel * d_.inChannels);
      const auto dy =
          static_cast<std::int32_t>((image * d_.outSize() + line * d_.out[2] + o) * d_.outChannels);
      termsOf(first, end, taps)
          .list.push_back(alongOutput_ ? TermOffsets{x, dy} : TermOffsets{dy, x});
    }
  }

  static Terms& termsOf(std::int64_t firstTap, std::int64_t endTap, Taps& taps) {
    const auto known = std::ranges::find_if(taps, [&](const Terms& terms) {
      return terms.firstTap == firstTap && terms.endTap == endTap;
    });
    return known != taps.end() ? *known : taps.emplace_back(Terms{firstTap, endTap});
  }

  float* sum(const KernelRun& run, std::int64_t grain) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(run.scratch) +
                                    static_cast<std::size_t>(grain) * sumBytes(d_));
  }

  /// A chunk's operands, and those of the following one that are read along vectors.
  struct Operands {
    const float* x;
    const float* dy;
    std::span<const float> next;
  };

  /// What is taken together, by number.
  struct TapRange {
    std::int64_t first = 0;
    std::int64_t end = 0;
  };

  /// Some taps of a grain. Their sums are apart, so it does not matter who has which.
  void sumGrain(const KernelRun& run, std::int64_t tile, const TapRange& taps) {
    const std::int64_t grain = tile / tapGroups_;
    std::vector<TermGroup>& groups = groups_[static_cast<std::size_t>(tile)];
    const std::int64_t first = grain * perGrain_;
    const std::int64_t end = std::min(d_.batch, first + perGrain_);
    const std::int64_t perImageX = d_.inSize() * d_.inChannels;
    const std::int64_t perImage = d_.outSize() * d_.outChannels;
    const std::int64_t perChunk = chunks_.images * chunks_.lines * d_.out[2] * d_.outChannels;
    for (std::int64_t image = first; image < end; image += chunks_.images) {
      const auto images = static_cast<std::size_t>(std::min(chunks_.images, end - image));
      for (std::size_t i = 0; i < terms_.size(); ++i) {
        const std::int64_t at = image * perImage + static_cast<std::int64_t>(i) * perChunk;
        const std::int64_t rest =
            std::clamp<std::int64_t>(end * perImage - at - perChunk, 0, perChunk);
        const float* dy = run.in<float>(1);
        Operands from{run.in<float>(0) + image * perImageX, dy + image * perImage, {}};
        if (alongOutput_) {
          from.next = {dy + at + perChunk, static_cast<std::size_t>(rest)};
        }
        sumChunk(from, {i, images, image > first || i > 0}, taps, groups, sum(run, grain));
      }
    }
  }

  struct Chunk {
    std::size_t number;
    std::size_t images;
    bool adds;  ///< to the sums of earlier chunks
  };

  /// All taps read the same of dy: slice by slice, so that they find it in the nearest cache. Of x
  /// they read other pixels.
  void sumChunk(const Operands& from,
                const Chunk& chunk,
                const TapRange& range,
                std::vector<TermGroup>& groups,
                float* to) const {
    const std::vector<Taps>& all = terms_[chunk.number];
    const std::int64_t perTap = alongOutput_ ? d_.inChannels : d_.outChannels;
    const std::int64_t rows = perTap * merged_;
    const std::int64_t columns = alongOutput_ ? d_.outChannels : d_.inChannels;
    const std::int64_t slice = alongOutput_ ? columnsOfSlice(rows) : columns;
    const auto count = static_cast<std::size_t>(range.end - range.first);
    const std::size_t ahead =
        from.next.size() / (count * static_cast<std::size_t>(ceilDiv(columns, slice)));
    std::span<const float> next = from.next;
    for (std::int64_t column = 0; column < columns; column += slice) {
      float* sums = to + column + range.first * rows * columns;
      for (std::int64_t tap = range.first; tap < range.end; ++tap, sums += rows * columns) {
        const Taps& taps = all[static_cast<std::size_t>(tap)];
        std::ranges::transform(taps, groups.begin(), [&](const Terms& terms) {
          return TermGroup{terms.firstTap * perTap,
                           terms.endTap * perTap,
                           {terms.list.data(), chunk.images * terms.perImage}};
        });
        sumOuterProducts({.left = alongOutput_ ? from.x : from.dy,
                          .right = (alongOutput_ ? from.dy : from.x) + column,
                          .groups = {groups.data(), taps.size()},
                          .adds = chunk.adds,
                          .next = next.first(ahead)},
                         {sums, columns},
                         {rows, std::min(slice, columns - column)});
        next = next.subspan(ahead);
      }
    }
  }

  /// One tap's part of the sums, in the order of the grains.
  void addGrains(const KernelRun& run, std::int64_t tap) const {
    const std::int64_t count = d_.inChannels * d_.outChannels;
    float* to = sum(run, 0) + tap * count;
    for (std::int64_t grain = 1; grain < grains_; ++grain) {
      const float* from = sum(run, grain) + tap * count;
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] += from[i];
      }
    }
  }

  /// The same for windows of one pixel.
  void storeOnly(const float* from, float* to, std::int64_t first, std::int64_t end) const {
    if (alongOutput_) {
      transposeMatrix({d_.inChannels, end - first, d_.outChannels},
                      from + first,
                      to + first * d_.inChannels,
                      d_.inChannels);
    } else {
      std::copy(
          from + first * d_.inChannels, from + end * d_.inChannels, to + first * d_.inChannels);
    }
  }

  /// Some output channels in the order of the weights: the taps innermost. Each transposed matrix
  /// has the taps as its rows.
  void store(const KernelRun& run, std::int64_t first, std::int64_t end) const {
    const std::int64_t taps = d_.kernelSize();
    const std::int64_t perTap = d_.inChannels * d_.outChannels;
    const float* from = sum(run, 0);
    auto* to = run.out<float>(0);
    if (taps == 1) {
      storeOnly(from, to, first, end);
      return;
    }
    if (!alongOutput_) {
      for (std::int64_t o = first; o < end; ++o) {
        transposeMatrix({taps, d_.inChannels, perTap},
                        from + o * d_.inChannels,
                        to + o * d_.inChannels * taps,
                        taps);
      }
      return;
    }
    for (std::int64_t i = 0; i < d_.inChannels; ++i) {
      transposeMatrix({taps, end - first, perTap},
                      from + i * d_.outChannels + first,
                      to + (first * d_.inChannels + i) * taps,
                      d_.inChannels * taps);
    }
  }

  ops::ConvDims d_;
  bool alongOutput_;
  std::int64_t merged_;  ///< taps that are taken together
  Chunks chunks_;
  std::int64_t grains_;
  std::int64_t perGrain_;
  std::int64_t taps_ = 0;                       ///< numbers of what is taken together
  std::int64_t tapGroups_ = 0;                  ///< of a grain
  std::vector<std::vector<Taps>> terms_;        ///< by chunk, and by what is taken together
  std::vector<std::vector<TermGroup>> groups_;  ///< room for those of one call, by tile
};

/// Equal grains of whole images, none of them empty.
std::int64_t grainsOf(const ir::OpView& op) {
  const std::int64_t batch = ops::convDims(op).batch;
  return ceilDiv(batch, ceilDiv(batch, convTiles(op)));
}

}  // namespace

bool canAddOuter(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return op.inputs[0].dtype == DType::F32 && hasVectorProduct() && d.groups == 1 &&
         d.inSize() * d.inChannels <= kMost / kMostTerms &&
         d.outSize() * d.outChannels <= kMost / kMostTerms;
}

bool likesOuter(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  const std::int64_t columns = alongOutput(d) ? d.outChannels : d.inChannels;
  const std::int64_t rows =
      alongOutput(d) ? d.inChannels * (mergesTaps(d) ? d.kernel[2] : 1) : d.outChannels;
  if (d.kernelSize() == 1 && rows * ceilDiv(columns, kVector) < kInFlight) {
    return false;
  }
  if (!canAddOuter(op) || filled(columns) < kLeastFilled ||
      (rows < (mergesTaps(d) ? kFewestMerged : kFewestRows) && d.kernelSize() > 1)) {
    return false;
  }
  const bool isLong = columns > kVector && d.batch * d.outSize() >= kTermsPerTap * d.kernelSize();
  return isLong || filled(d.outChannels) < kLeastFilled;
}

device::Choice chooseOuter(const ir::OpView& op) {
  device::Choice choice = device::plainChoice(op, "");
  choice.inputs[0] = activationLayout(op.inputs[0], true);
  choice.inputs[1] = activationLayout(op.inputs[1], true);
  const ops::ConvDims d = ops::convDims(op);
  choice.scratchBytes = sumBytes(d) * static_cast<std::size_t>(grainsOf(op));
  choice.config = kOuterConfig;
  return choice;
}

std::unique_ptr<Kernel> makeOuter(const ir::OpView& op) {
  return std::make_unique<ConvGradOuter>(ops::convDims(op), grainsOf(op));
}

}  // namespace sluice::devices::cpu
