// The weights are taken as one matrix per tap, [inChannels, outChannels] forward and the other way
// round for the gradient, so that packing them can be hoisted. Forward through one pixel they are
// packed into panels, the gradient through one pixel takes them as they are.
#include "sluice/devices/cpu/kernels/conv_taps.h"

#include <algorithm>

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

/// The library's gradient is the slower one where one vector holds the channels of the input, if
/// the sums and the lines are long.
constexpr std::int64_t kFewChannels = 16;
constexpr std::int64_t kLeastChannels = 13;
constexpr std::int64_t kLongSum = 64;
constexpr std::int64_t kLongLine = 24;

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

/// Pixels of a line of windows that lie inside the input under one tap.
struct Line {
  std::int64_t in = 0;   ///< the first one's number in the input
  std::int64_t out = 0;  ///< and in the output
  std::int64_t pixels = 0;
};

class ConvTaps : public TiledKernel {
 public:
  ConvTaps(const ops::ConvDims& d, bool forward, std::int64_t tiles)
      : d_(d),
        forward_(forward),
        whole_(d.kernelSize() == 1 && !isPadded(d) && d.in == d.out),
        sums_(d.kernelSize() > 1 || isPadded(d)),
        panels_(panelFormat(weightsOf(d, forward))),
        step_(ceilDiv(d.batch, tiles)) {}

  void runTiles(const device::KernelRun& run,
                FunctionRef<void(const OutputTile&)> epilogue) override {
    const std::int64_t perImage =
        forward_ ? d_.outSize() * d_.outChannels : d_.inSize() * d_.inChannels;
    auto* out = run.out<float>(0);
    run.workers.parallelFor(ceilDiv(d_.batch, step_), [&](std::int64_t tile) {
      const std::int64_t first = tile * step_;
      const std::int64_t end = std::min(d_.batch, first + step_);
      if (whole_) {
        const std::int64_t at = first * d_.inSize();
        multiply(run, {at, at, (end - first) * d_.inSize()}, 0);
      } else {
        for (std::int64_t image = first; image < end; ++image) {
          if (sums_ || !forward_) {  // strides leave out pixels of the gradient
            std::fill_n(out + image * perImage, perImage, 0.0F);
          }
          multiplyImage(run, image);
        }
      }
      epilogue({first * perImage, end * perImage});
    });
  }

 private:
  void multiplyImage(const device::KernelRun& run, std::int64_t image) const {
    for (std::int64_t line = 0; line < d_.out[0] * d_.out[1]; ++line) {
      for (std::int64_t tap = 0; tap < d_.kernelSize(); ++tap) {
        if (const Line inside = lineOf(image, line, tap); inside.pixels > 0) {
          multiply(run, inside, tap);
        }
      }
    }
  }

  Line lineOf(std::int64_t image, std::int64_t line, std::int64_t tap) const {
    const std::int64_t i0 = d_.position(0, line / d_.out[1], tap / d_.kernel[2] / d_.kernel[1]);
    const std::int64_t i1 = d_.position(1, line % d_.out[1], tap / d_.kernel[2] % d_.kernel[1]);
    if (i0 < 0 || i0 >= d_.in[0] || i1 < 0 || i1 >= d_.in[1]) {
      return {};
    }
    const std::int64_t before = -d_.position(2, 0, tap % d_.kernel[2]);
    const std::int64_t first = before <= 0 ? 0 : ceilDiv(before, d_.strides[2]);
    const std::int64_t end = std::min(d_.out[2], ceilDiv(d_.in[2] + before, d_.strides[2]));
    return {((image * d_.in[0] + i0) * d_.in[1] + i1) * d_.in[2] + first * d_.strides[2] - before,
            image * d_.outSize() + line * d_.out[2] + first,
            end - first};
  }

  void multiply(const device::KernelRun& run, const Line& line, std::int64_t tap) const {
    const std::int64_t step = (whole_ ? 1 : d_.strides[2]) * d_.inChannels;
    const auto accumulate = sums_ ? Accumulate::Yes : Accumulate::No;
    const std::int64_t in = line.in * d_.inChannels;
    const std::int64_t out = line.out * d_.outChannels;
    if (forward_) {
      multiplyRows({run.in<float>(0) + in, step, 1},
                   weights(run.in<float>(1), tap, d_.outChannels),
                   {run.out<float>(0) + out, d_.outChannels},
                   {line.pixels, d_.outChannels, d_.inChannels},
                   accumulate);
    } else {
      multiplyRows({run.in<float>(1) + out, d_.outChannels, 1},
                   weights(run.in<float>(0), tap, d_.inChannels),
                   {run.out<float>(0) + in, step},
                   {line.pixels, d_.inChannels, d_.outChannels},
                   accumulate);
    }
  }

  RightMatrix weights(const float* data, std::int64_t tap, std::int64_t columns) const {
    if (panels_) {
      return {data, panels_->width, panels_->width, panels_->panelStride};
    }
    return {data + tap * d_.inChannels * d_.outChannels, columns, columns, 0};
  }

  ops::ConvDims d_;
  bool forward_;
  bool whole_;  ///< windows of one pixel that meet every pixel: all are rows of one matrix
  bool sums_;   ///< whether outputs are sums over taps
  std::optional<PanelFormat> panels_;
  std::int64_t step_;
};

}  // namespace

bool canMultiplyTaps(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  return op.inputs[0].dtype == DType::F32 && hasVectorProduct() && d.groups == 1 &&
         convPass(op) != ConvPass::GradWeight;
}

bool likesTaps(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  if (!canMultiplyTaps(op) || d.inChannels * d.outChannels * d.kernelSize() > kCachedWeights) {
    return false;
  }
  if (d.kernelSize() == 1) {
    const std::int64_t columns = isForward(op) ? d.outChannels : d.inChannels;
    const std::int64_t k = isForward(op) ? d.inChannels : d.outChannels;
    return !isPadded(d) && (columns >= kLeastColumns || k >= kLeastColumns);
  }
  return !isForward(op) && d.inChannels >= kLeastChannels && d.inChannels <= kFewChannels &&
         d.outChannels >= kLongSum && d.out[2] >= kLongLine;
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
