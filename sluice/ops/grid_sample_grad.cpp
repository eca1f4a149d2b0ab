// grid_sample_grad: the gradients of grid_sample's images and of its grid. A place on the border
// that is clamped there does not move the result.
#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/grid_sample.h"
#include "sluice/ops/image_ops.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  const TensorType expected = inferGridSample(op);
  if (op.inputs[2] != expected) {
    raise<InvalidArgument>("grid_sample_grad: the output gradient must be {}, got {}",
                           expected.str(),
                           op.inputs[2].str());
  }
  return {op.inputs[0], op.inputs[1]};
}

struct Plane {
  std::int64_t columns;
  const double* from;
  double* to;
};

/// Adds dy to the elements below the place; returns how the place's numbers move the loss.
std::array<double, 2> spread(const Plane& plane, const GridTaps& x, const GridTaps& y, double dy) {
  std::array<double, 2> moved = {0.0, 0.0};
  for (std::size_t i = 0; i < static_cast<std::size_t>(y.count); ++i) {
    for (std::size_t j = 0; j < static_cast<std::size_t>(x.count); ++j) {
      if (y.index[i] < 0 || x.index[j] < 0) {
        continue;
      }
      const std::int64_t at = y.index[i] * plane.columns + x.index[j];
      plane.to[at] += y.weight[i] * x.weight[j] * dy;
      moved[0] += y.weight[i] * x.slope[j] * plane.from[at] * dy;
      moved[1] += y.slope[i] * x.weight[j] * plane.from[at] * dy;
    }
  }
  return moved;
}

template <class T>
void gradients(const ir::KernelArgs& args) {
  const Shape& in = args.op.inputs[0].shape;
  const Shape& out = args.op.inputs[2].shape;
  const GridAxis rows(args.op, in[2]);
  const GridAxis columns(args.op, in[3]);
  const std::int64_t image = in[2] * in[3];
  const std::int64_t places = out[2] * out[3];
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(in.elements()));
  for (const T value : args.in<T>(0)) {
    values.push_back(widen(value));
  }
  std::vector<double> sums(values.size(), 0.0);
  for (std::int64_t p = 0; p < out[0] * places; ++p) {
    const std::int64_t n = p / places;
    const T* number = args.in<T>(1).data() + p * 2;
    const GridTaps x = columns.at(widen(number[0]));
    const GridTaps y = rows.at(widen(number[1]));
    std::array<double, 2> total = {0.0, 0.0};
    for (std::int64_t c = 0; c < in[1]; ++c) {
      const std::int64_t base = (n * in[1] + c) * image;
      const std::int64_t at = (n * in[1] + c) * places + p % places;
      const std::array<double, 2> moved = spread(
          {in[3], values.data() + base, sums.data() + base}, x, y, widen(args.in<T>(2).data()[at]));
      total[0] += moved[0];
      total[1] += moved[1];
    }
    T* to = args.out<T>(1).data() + p * 2;
    to[0] = narrow<T>(total[0]);
    to[1] = narrow<T>(total[1]);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    args.out<T>(0)[i] = narrow<T>(sums[i]);
  }
}

void reference(const ir::KernelArgs& args) {
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<Wide<T>, double>) {
      gradients<T>(args);
    }
  });
}

}  // namespace

constinit const ir::OpDef kGridSampleGrad{.name = "grid_sample_grad",
                                          .minInputs = 3,
                                          .maxInputs = 3,
                                          .outputs = 2,
                                          .attrs = kGridSampleAttrs,
                                          .infer = infer,
                                          .cost = costPerInput<24>,
                                          .reference = reference};

GridSampleGrads gridSampleGrad(
    GraphBuilder& b, Value x, Value grid, Value dy, const GridSampleOptions& options) {
  const std::vector<Value> grads = b.addMany(kGridSampleGrad,
                                             {x, grid, dy},
                                             {{"mode", options.mode},
                                              {"padding", options.padding},
                                              {"alignCorners", options.alignCorners}});
  return {.x = grads[0], .grid = grads[1]};
}

}  // namespace sluice::ops
