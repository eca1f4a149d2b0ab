// roi_align_grad: the gradient of roi_align's images: each cell's is spread over the elements of
// its samples (avg) or of the largest one (max).
#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/roi_align.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  const TensorType expected = inferRoiAlign(op);
  if (op.inputs[3] != expected) {
    raise<InvalidArgument>("roi_align_grad: the output gradient must be {}, got {}",
                           expected.str(),
                           op.inputs[3].str());
  }
  return {op.inputs[0]};
}

/// The op is linear in dy; as everywhere, regions have no gradient.
std::vector<Value> grad(ir::GradContext& g) {
  if (g.op.attrs.text("mode") != "avg") {
    raise<Unsupported>("roi_align_grad: there is no second derivative in mode max");
  }
  const Value dy = g.b.add(kRoiAlign, {g.grad(), g.input(1), g.input(2)}, g.op.attrs);
  return {Value(), Value(), Value(), dy};
}

void addTo(double* plane, const RoiSample& sample, double dy) {
  for (std::size_t i = 0; i < 4; ++i) {
    plane[sample.index[i]] += sample.weight[i] * dy;
  }
}

template <class T>
const RoiSample& largest(const RoiCell& cell, const T* plane) {
  std::size_t best = 0;
  double most = valueOf(cell.samples[0], plane, widen<T>);
  for (std::size_t i = 1; i < cell.samples.size(); ++i) {
    const double value = valueOf(cell.samples[i], plane, widen<T>);
    if (value > most) {
      best = i;
      most = value;
    }
  }
  return cell.samples[best];
}

template <class T>
void spread(const ir::KernelArgs& args) {
  const Shape& in = args.op.inputs[0].shape;
  const Shape& out = args.op.inputs[3].shape;
  const std::int64_t plane = in[2] * in[3];
  const bool mean = args.op.attrs.text("mode") == "avg";
  std::vector<double> sums(static_cast<std::size_t>(in.elements()), 0.0);
  forEachRoiCell(args, [&](const RoiCell& cell) {
    if (cell.samples.empty() || plane == 0) {
      return;
    }
    for (std::int64_t c = 0; c < in[1]; ++c) {
      const std::int64_t base = (cell.image * in[1] + c) * plane;
      const double dy = widen(args.in<T>(3).data()[cell.firstOutput + c * out[2] * out[3]]);
      if (!mean) {
        addTo(sums.data() + base, largest(cell, args.in<T>(0).data() + base), dy);
        continue;
      }
      for (const RoiSample& sample : cell.samples) {
        addTo(sums.data() + base, sample, dy / static_cast<double>(cell.samples.size()));
      }
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    args.out<T>(0)[i] = narrow<T>(sums[i]);
  }
}

void reference(const ir::KernelArgs& args) {
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<Wide<T>, double>) {
      spread<T>(args);
    }
  });
}

}  // namespace

constinit const ir::OpDef kRoiAlignGrad{.name = "roi_align_grad",
                                        .minInputs = 4,
                                        .maxInputs = 4,
                                        .attrs = kRoiAlignAttrs,
                                        .infer = infer,
                                        .grad = grad,
                                        .gradReads = {.inputs = 0b0110},
                                        .cost = costPerOutput<32>,
                                        .reference = reference};

Value roiAlignGrad(GraphBuilder& b,
                   Value x,
                   Value regions,
                   Value batchIndices,
                   Value dy,
                   const RoiAlignOptions& options) {
  return b.add(kRoiAlignGrad, {x, regions, batchIndices, dy}, roiAlignAttrs(options));
}

}  // namespace sluice::ops
