// grid_sample: an image's values at the places that a grid names, from -1 to 1 on each axis, by the
// nearest element or by linear or cubic interpolation. Outside lie zeros, the border's elements, or
// the image's mirror images.
#include "sluice/ops/grid_sample.h"

#include <algorithm>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr double kCubic = -0.75;

double nearWeight(double d) {
  return ((kCubic + 2.0) * d - (kCubic + 3.0)) * d * d + 1.0;
}
double nearSlope(double d) {
  return (3.0 * (kCubic + 2.0) * d - 2.0 * (kCubic + 3.0)) * d;
}
double farWeight(double d) {
  return ((kCubic * d - 5.0 * kCubic) * d + 8.0 * kCubic) * d - 4.0 * kCubic;
}
double farSlope(double d) {
  return (3.0 * kCubic * d - 10.0 * kCubic) * d + 8.0 * kCubic;
}

GridSampleOptions optionsOf(const ir::OpView& op) {
  return {.mode = op.attrs.text("mode"),
          .padding = op.attrs.text("padding"),
          .alignCorners = op.attrs.flag("alignCorners")};
}

std::vector<TensorType> infer(const ir::OpView& op) {
  return {inferGridSample(op)};
}

std::vector<Value> grad(ir::GradContext& g) {
  const GridSampleGrads grads =
      gridSampleGrad(g.b, g.input(0), g.input(1), g.grad(), optionsOf(g.op));
  return {grads.x, grads.grid};
}

/// The weighted sum of the elements of an image that the taps name.
template <class T>
double sumOf(const T* image, std::int64_t width, const GridTaps& y, const GridTaps& x) {
  double sum = 0.0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(y.count); ++i) {
    for (std::size_t j = 0; j < static_cast<std::size_t>(x.count); ++j) {
      if (y.index[i] >= 0 && x.index[j] >= 0) {
        sum += y.weight[i] * x.weight[j] * widen(image[y.index[i] * width + x.index[j]]);
      }
    }
  }
  return sum;
}

template <class T>
void sample(const ir::KernelArgs& args) {
  const Shape& in = args.op.inputs[0].shape;
  const Shape& out = args.op.outputs[0].shape;
  const GridAxis rows(args.op, in[2]);
  const GridAxis columns(args.op, in[3]);
  const T* grid = args.in<T>(1).data();
  const std::int64_t image = in[2] * in[3];
  const std::int64_t places = out[2] * out[3];
  for (std::int64_t n = 0; n < out[0]; ++n) {
    for (std::int64_t p = 0; p < places; ++p) {
      const T* number = grid + (n * places + p) * 2;
      const GridTaps x = columns.at(widen(number[0]));
      const GridTaps y = rows.at(widen(number[1]));
      for (std::int64_t c = 0; c < out[1]; ++c) {
        const T* from = args.in<T>(0).data() + (n * in[1] + c) * image;
        args.out<T>(0).data()[(n * out[1] + c) * places + p] = narrow<T>(sumOf(from, in[3], y, x));
      }
    }
  }
}

void reference(const ir::KernelArgs& args) {
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<Wide<T>, double>) {
      sample<T>(args);
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"GridSample", 16}};

}  // namespace

GridAxis::GridAxis(const ir::OpView& op, std::int64_t extent)
    : mode_(op.attrs.text("mode") == "nearest"    ? GridMode::Nearest
            : op.attrs.text("mode") == "bilinear" ? GridMode::Bilinear
                                                  : GridMode::Bicubic),
      padding_(op.attrs.text("padding") == "zeros"    ? GridPadding::Zeros
               : op.attrs.text("padding") == "border" ? GridPadding::Border
                                                      : GridPadding::Reflection),
      align_(op.attrs.flag("alignCorners")),
      extent_(static_cast<double>(extent)) {}

GridAxis::Padded GridAxis::pad(double at) const {
  double slope = 1.0;
  if (padding_ == GridPadding::Zeros) {
    return {at, slope};
  }
  if (padding_ == GridPadding::Reflection) {
    // The mirrors stand on the outer elements or half an element further out.
    const double low = align_ ? 0.0 : -0.5;
    const double span = align_ ? extent_ - 1.0 : extent_;
    if (span <= 0.0) {
      return {0.0, 0.0};
    }
    const double from = std::fmod(at - low, 2.0 * span);
    const double turn = from < 0.0 ? from + 2.0 * span : from;
    slope = turn > span ? -1.0 : 1.0;
    at = low + (turn > span ? 2.0 * span - turn : turn);
  }
  if (!(at > 0.0)) {
    return {0.0, 0.0};
  }
  return at < extent_ - 1.0 ? Padded{at, slope} : Padded{extent_ - 1.0, 0.0};
}

std::int64_t GridAxis::element(double at) const {
  return at >= 0.0 && at < extent_ ? static_cast<std::int64_t>(at) : -1;
}

GridTaps GridAxis::at(double number) const {
  const double scale = (align_ ? extent_ - 1.0 : extent_) / 2.0;
  const double raw = (number + 1.0) * scale - (align_ ? 0.0 : 0.5);
  if (mode_ == GridMode::Bicubic) {
    const double first = std::floor(raw);
    const double t = raw - first;
    GridTaps taps{
        .count = 4,
        .index = {},
        .weight = {farWeight(1.0 + t), nearWeight(t), nearWeight(1.0 - t), farWeight(2.0 - t)},
        .slope = {farSlope(1.0 + t) * scale,
                  nearSlope(t) * scale,
                  -nearSlope(1.0 - t) * scale,
                  -farSlope(2.0 - t) * scale}};
    for (std::size_t i = 0; i < 4; ++i) {
      taps.index[i] = element(pad(first - 1.0 + static_cast<double>(i)).at);
    }
    return taps;
  }
  const auto [at, slope] = pad(raw);
  if (mode_ == GridMode::Nearest) {
    return {.count = 1, .index = {element(std::nearbyint(at))}, .weight = {1.0}, .slope = {0.0}};
  }
  const double first = std::floor(at);
  return {.count = 2,
          .index = {element(first), element(first + 1.0)},
          .weight = {1.0 - (at - first), at - first},
          .slope = {-slope * scale, slope * scale}};
}

TensorType inferGridSample(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireSameDType(op);
  requireOneOf(op, "mode", {"bilinear", "nearest", "bicubic"});
  requireOneOf(op, "padding", {"zeros", "border", "reflection"});
  const Shape& x = op.inputs[0].shape;
  const Shape& grid = op.inputs[1].shape;
  if (x.rank() != 4 || grid.rank() != 4 || grid[0] != x[0] || grid[3] != 2) {
    raise<InvalidArgument>(
        "{}: expected images [batch, channels, rows, columns] and a grid [batch, .., .., 2], got "
        "{} and {}",
        op.def.name,
        op.inputs[0].str(),
        op.inputs[1].str());
  }
  return {op.inputs[0].dtype, Shape{x[0], x[1], grid[1], grid[2]}};
}

constinit const ir::OpDef kGridSample{.name = "grid_sample",
                                      .minInputs = 2,
                                      .maxInputs = 2,
                                      .attrs = kGridSampleAttrs,
                                      .infer = infer,
                                      .grad = grad,
                                      .gradReads = {.inputs = 0b11},
                                      .cost = costPerOutput<8>,
                                      .reference = reference,
                                      .onnx = kOnnx};

Value gridSample(GraphBuilder& b, Value x, Value grid, const GridSampleOptions& options) {
  return b.add(kGridSample,
               {x, grid},
               {{"mode", options.mode},
                {"padding", options.padding},
                {"alignCorners", options.alignCorners}});
}

}  // namespace sluice::ops
