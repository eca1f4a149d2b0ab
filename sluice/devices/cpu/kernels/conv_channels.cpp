#include "sluice/devices/cpu/kernels/conv_channels.h"

#include <algorithm>
#include <array>

#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/row_products.h"
#include "sluice/devices/cpu/kernels/vector_product.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::int64_t kLeastChannels = 8;
constexpr std::int64_t kMostTaps = 256;
/// Elements of a tile's lines; fewer are not worth a thread.
constexpr std::int64_t kTileElements = 8192;

class ConvChannels : public TiledKernel {
 public:
  explicit ConvChannels(const ops::ConvDims& d) : d_(d) {
    const auto isInside = [&](std::int64_t pixel) {
      return d.position(2, pixel, 0) >= 0 && d.position(2, pixel, d.kernel[2] - 1) < d.in[2];
    };
    while (firstInside_ < d.out[2] && !isInside(firstInside_)) {
      ++firstInside_;
    }
    endInside_ = firstInside_;
    while (endInside_ < d.out[2] && isInside(endInside_)) {
      ++endInside_;
    }
  }

  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    const std::int64_t perLine = d_.out[2] * d_.outChannels;
    const std::int64_t lines = d_.batch * d_.out[0] * d_.out[1];
    const std::int64_t step = std::max<std::int64_t>(1, kTileElements / perLine);
    run.workers.parallelFor(ceilDiv(lines, step), [&](std::int64_t tile) {
      const std::int64_t end = std::min(lines, (tile + 1) * step);
      for (std::int64_t line = tile * step; line < end; ++line) {
        sumLine(run, line);
      }
      epilogue({tile * step * perLine, end * perLine});
    });
  }

 private:
  /// Pixels whose windows lie inside the line have the same taps; those at its ends are each alone.
  void sumLine(const KernelRun& run, std::int64_t line) const {
    for (std::int64_t pixel = 0; pixel < firstInside_; ++pixel) {
      sumPixels(run, line, pixel, 1);
    }
    if (endInside_ > firstInside_) {
      sumPixels(run, line, firstInside_, endInside_ - firstInside_);
    }
    for (std::int64_t pixel = endInside_; pixel < d_.out[2]; ++pixel) {
      sumPixels(run, line, pixel, 1);
    }
  }

  /// Pixels that all have the taps of the first one.
  void sumPixels(const KernelRun& run,
                 std::int64_t line,
                 std::int64_t pixel,
                 std::int64_t count) const {
    const std::int64_t channels = d_.inChannels;
    const std::int64_t o1 = line % d_.out[1];
    const std::int64_t o0 = line / d_.out[1] % d_.out[0];
    const float* image = run.in<float>(0) + line / d_.out[1] / d_.out[0] * d_.inSize() * channels;
    std::array<RowTap, kMostTaps> taps;
    std::size_t found = 0;
    for (std::int64_t tap = 0; tap < d_.kernelSize(); ++tap) {
      const std::int64_t i0 = d_.position(0, o0, tap / d_.kernel[2] / d_.kernel[1]);
      const std::int64_t i1 = d_.position(1, o1, tap / d_.kernel[2] % d_.kernel[1]);
      const std::int64_t i2 = d_.position(2, pixel, tap % d_.kernel[2]);
      if (i0 >= 0 && i0 < d_.in[0] && i1 >= 0 && i1 < d_.in[1] && i2 >= 0 && i2 < d_.in[2]) {
        taps[found++] = {image + ((i0 * d_.in[1] + i1) * d_.in[2] + i2) * channels,
                         run.in<float>(1) + tap * channels};
      }
    }
    sumRowProducts({.taps = {taps.data(), found},
                    .leftStep = d_.strides[2] * channels,
                    .to = run.out<float>(0) + (line * d_.out[2] + pixel) * channels,
                    .pixels = count,
                    .length = channels});
  }

  ops::ConvDims d_;
  std::int64_t firstInside_ = 0;  ///< pixels of a line, [first, end), that have all taps along it
  std::int64_t endInside_ = 0;
};

}  // namespace

bool canSumChannels(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  return convPass(op) == ConvPass::Forward && op.inputs[0].dtype == DType::F32 &&
         hasVectorProduct() && d.groups == d.inChannels && d.groups == d.outChannels &&
         d.kernelSize() <= kMostTaps;
}

bool likesChannels(const ir::OpView& op) {
  return canSumChannels(op) && ops::convDims(op).inChannels >= kLeastChannels;
}

device::Choice chooseChannels(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  device::Choice choice = device::plainChoice(op, "");
  choice.inputs[0] = activationLayout(op.inputs[0], true);
  // The channels of a tap side by side.
  choice.inputs[1] = onednn::layoutOf(
      onednn::strided(DType::F32, {d.outChannels, d.kernelSize()}, {1, d.outChannels}));
  choice.outputs[0] = activationLayout(op.outputs[0], true);
  choice.config = kChannelsConfig;
  return choice;
}

std::unique_ptr<TiledKernel> makeChannels(const ir::OpView& op) {
  return std::make_unique<ConvChannels>(ops::convDims(op));
}

}  // namespace sluice::devices::cpu
