// Forward, the weights [outChannels, inChannels] are the transposed right operand and are taken
// packed, so that packing them can be hoisted; for the gradient they are the right operand as they
// are. With strides, a line of outputs meets every so-many-th pixel of a line of the input.
#include "sluice/devices/cpu/kernels/conv_pointwise.h"

#include <algorithm>

#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/pack_matrix.h"
#include "sluice/devices/cpu/kernels/vector_product.h"

namespace sluice::devices::cpu {
namespace {

/// Elements of the weights up to which they stay in cache while the pixels go by.
constexpr std::int64_t kCachedWeights = 1 << 17;

dnnl::memory::desc packedWeights(const ops::ConvDims& d) {
  return {{d.outChannels, d.inChannels},
          dnnl::memory::data_type::f32,
          dnnl::memory::format_tag::AB16b64a};
}

class Pointwise : public TiledKernel {
 public:
  Pointwise(const ops::ConvDims& d, bool forward, std::int64_t tiles)
      : d_(d),
        forward_(forward),
        dense_(d.in == d.out),
        panels_(*panelFormat(packedWeights(d))),
        step_(ceilDiv(d.batch, tiles)) {}

  void runTiles(const device::KernelRun& run,
                FunctionRef<void(const OutputTile&)> epilogue) override {
    const std::int64_t perImage =
        forward_ ? d_.outSize() * d_.outChannels : d_.inSize() * d_.inChannels;
    run.workers.parallelFor(ceilDiv(d_.batch, step_), [&](std::int64_t tile) {
      const std::int64_t first = tile * step_;
      const std::int64_t end = std::min(d_.batch, first + step_);
      if (forward_) {
        forward(run, first, end);
      } else {
        gradient(run, first, end);
      }
      epilogue({first * perImage, end * perImage});
    });
  }

 private:
  void forward(const device::KernelRun& run, std::int64_t first, std::int64_t end) const {
    const RightMatrix weights{run.in<float>(1), panels_.width, panels_.width, panels_.panelStride};
    const auto* x = run.in<float>(0);
    auto* y = run.out<float>(0);
    forLines(first, end, [&](std::int64_t in, std::int64_t out, std::int64_t pixels) {
      multiplyRows({x + in * d_.inChannels, stride() * d_.inChannels, 1},
                   weights,
                   {y + out * d_.outChannels, d_.outChannels},
                   {pixels, d_.outChannels, d_.inChannels});
    });
  }

  /// Pixels that no window meets get zeros.
  void gradient(const device::KernelRun& run, std::int64_t first, std::int64_t end) const {
    const RightMatrix weights{run.in<float>(0), d_.inChannels, d_.inChannels, 0};
    const auto* dy = run.in<float>(1);
    auto* dx = run.out<float>(0);
    const std::int64_t perImage = d_.inSize() * d_.inChannels;
    if (!dense_) {
      std::fill(dx + first * perImage, dx + end * perImage, 0.0F);
    }
    forLines(first, end, [&](std::int64_t in, std::int64_t out, std::int64_t pixels) {
      multiplyRows({dy + out * d_.outChannels, d_.outChannels, 1},
                   weights,
                   {dx + in * d_.inChannels, stride() * d_.inChannels},
                   {pixels, d_.inChannels, d_.outChannels});
    });
  }

  std::int64_t stride() const { return dense_ ? 1 : d_.strides[2]; }

  /// Calls f(first pixel of the input, of the output, number of them) for runs of pixels that are
  /// equally far apart.
  template <class F>
  void forLines(std::int64_t first, std::int64_t end, F f) const {
    if (dense_) {
      f(first * d_.inSize(), first * d_.inSize(), (end - first) * d_.inSize());
      return;
    }
    for (std::int64_t image = first; image < end; ++image) {
      for (std::int64_t o = 0; o < d_.out[0] * d_.out[1]; ++o) {
        const std::int64_t i0 = o / d_.out[1] * d_.strides[0];
        const std::int64_t i1 = o % d_.out[1] * d_.strides[1];
        f(((image * d_.in[0] + i0) * d_.in[1] + i1) * d_.in[2],
          image * d_.outSize() + o * d_.out[2],
          d_.out[2]);
      }
    }
  }

  ops::ConvDims d_;
  bool forward_;
  bool dense_;
  PanelFormat panels_;
  std::int64_t step_;
};

}  // namespace

bool isPointwise(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  const ops::Extents none = {0, 0, 0};
  return op.inputs[0].dtype == DType::F32 && hasVectorProduct() && d.groups == 1 &&
         d.kernelSize() == 1 && d.padsBefore == none && d.padsAfter == none &&
         convPass(op) != ConvPass::GradWeight;
}

bool likesPointwise(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  return isPointwise(op) && d.inChannels * d.outChannels <= kCachedWeights;
}

device::Choice choosePointwise(const ir::OpView& op) {
  const bool forward = convPass(op) == ConvPass::Forward;
  device::Choice choice = device::plainChoice(op, "");
  const std::size_t activation = forward ? 0 : 1;
  choice.inputs[activation] = activationLayout(op.inputs[activation], true);
  if (forward) {
    choice.inputs[1] = onednn::layoutOf(packedWeights(ops::convDims(op)));
  }
  choice.outputs[0] = activationLayout(op.outputs[0], true);
  choice.config = kPointwiseConfig;
  return choice;
}

std::unique_ptr<TiledKernel> makePointwise(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  return std::make_unique<Pointwise>(d, convPass(op) == ConvPass::Forward, convTiles(op));
}

}  // namespace sluice::devices::cpu
