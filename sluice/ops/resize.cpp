// resize: another extent for each axis by interpolation along it. The axes are independent, so a
// resize is a product with one constant matrix per axis (its gradient the transposed one), or a sum
// of weighted gathers where that matrix would be large; with the nearest element it is a gather.
#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

/// Elements of the largest matrix that is written out.
constexpr std::int64_t kMaxMatrix = std::int64_t{1} << 20U;

constexpr std::array<ir::AttrSpec, 9> kAttrs = {
    {{.name = "sizes", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "scales", .kind = ir::AttrKind::Reals},
     {.name = "mode", .kind = ir::AttrKind::Text, .text = "nearest"},
     {.name = "coordinates", .kind = ir::AttrKind::Text, .text = "half_pixel"},
     {.name = "nearest", .kind = ir::AttrKind::Text, .text = "round_prefer_floor"},
     {.name = "cubicCoefficient", .kind = ir::AttrKind::Real, .real = -0.75},
     {.name = "excludeOutside", .kind = ir::AttrKind::Bool},
     {.name = "roi", .kind = ir::AttrKind::Reals},
     {.name = "extrapolationValue", .kind = ir::AttrKind::Real}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Any);
  requireOneOf(op, "mode", {"nearest", "linear", "cubic"});
  requireOneOf(op, "nearest", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  requireOneOf(op,
               "coordinates",
               {"half_pixel",
                "pytorch_half_pixel",
                "align_corners",
                "asymmetric",
                "tf_half_pixel_for_nn",
                "tf_crop_and_resize"});
  const Shape& shape = op.inputs[0].shape;
  const auto& sizes = perAxisAttr(op, "sizes", shape.rank());
  const std::vector<double>& scales = op.attrs.reals("scales");
  if (!scales.empty() && scales.size() != sizes.size()) {
    raise<InvalidArgument>(
        "resize: expected {} scales for {}, got {}", sizes.size(), shape.str(), scales.size());
  }
  for (const double scale : scales) {
    if (!(scale > 0.0) || !std::isfinite(scale)) {
      raise<InvalidArgument>("resize: scales must be above 0 and finite, got {}", scale);
    }
  }
  const std::size_t bounds =
      op.attrs.text("coordinates") == "tf_crop_and_resize" ? 2 * sizes.size() : 0;
  if (op.attrs.reals("roi").size() != bounds) {
    raise<InvalidArgument>("resize: expected {} bounds of the region for {}, got {}",
                           bounds,
                           shape.str(),
                           op.attrs.reals("roi").size());
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (shape.dims()[i] == 0 && sizes[i] != 0) {
      raise<InvalidArgument>("resize: axis {} of {} has no elements to take from", i, shape.str());
    }
  }
  return {{op.inputs[0].dtype, Shape(sizes)}};
}

struct Taps {
  std::array<std::vector<std::int64_t>, 4> from;
  std::array<std::vector<double>, 4> weights;
};

/// One axis: where its elements come from.
class ResizedAxis {
 public:
  ResizedAxis(const ir::OpView& op, std::size_t axis)
      : attrs_(op.attrs),
        extent_(op.inputs[0].shape.dims()[axis]),
        size_(op.attrs.integers("sizes")[axis]) {
    const std::vector<double>& scales = attrs_.reals("scales");
    const auto extent = static_cast<double>(extent_);
    scale_ = scales.empty() ? static_cast<double>(size_) / extent : scales[axis];
    // The standard's own cases measure a fractional width here when scales are given.
    width_ = scale_ * extent;
    if (crops()) {
      const std::vector<double>& roi = attrs_.reals("roi");
      start_ = roi[axis];
      end_ = roi[axis + roi.size() / 2];
      width_ = static_cast<double>(size_);
    }
  }

  bool crops() const { return attrs_.text("coordinates") == "tf_crop_and_resize"; }
  std::int64_t extent() const { return extent_; }
  std::int64_t size() const { return size_; }

  /// The place of element i of the result in the input's coordinates.
  double place(std::int64_t i) const {
    const std::string& mode = attrs_.text("coordinates");
    const auto at = static_cast<double>(i);
    const double last = static_cast<double>(extent_) - 1.0;
    if (mode == "half_pixel") {
      return (at + 0.5) / scale_ - 0.5;
    }
    if (mode == "pytorch_half_pixel") {
      return size_ > 1 ? (at + 0.5) / scale_ - 0.5 : 0.0;
    }
    if (mode == "align_corners") {
      return size_ > 1 ? at * last / (width_ - 1.0) : 0.0;
    }
    if (mode == "asymmetric") {
      return at / scale_;
    }
    if (mode == "tf_half_pixel_for_nn") {
      return (at + 0.5) / scale_;
    }
    return size_ > 1 ? start_ * last + at * (end_ - start_) * last / (width_ - 1.0)
                     : 0.5 * (start_ + end_) * last;
  }

  bool outside(std::int64_t i) const {
    return crops() && (place(i) < 0.0 || place(i) > static_cast<double>(extent_) - 1.0);
  }

  /// An element of the input for each of the result.
  std::vector<std::int64_t> nearest() const {
    const std::string& mode = attrs_.text("nearest");
    std::vector<std::int64_t> list;
    for (std::int64_t i = 0; i < size_; ++i) {
      const double at = place(i);
      const double fraction = at - std::floor(at);
      const bool up = mode == "ceil"                ? fraction > 0.0
                      : mode == "round_prefer_ceil" ? fraction >= 0.5
                                                    : mode != "floor" && fraction > 0.5;
      list.push_back(inside(std::floor(at) + (up ? 1.0 : 0.0)));
    }
    return list;
  }

  /// Four elements of the input and their weights for each element of the result.
  Taps taps() const {
    Taps result;
    for (std::int64_t i = 0; i < size_; ++i) {
      const double at = std::clamp(place(i), -4.0, static_cast<double>(extent_) + 4.0);
      const double first = std::floor(at);
      std::array<double, 4> weights = tapsAt(at - first);
      double total = 0.0;
      for (std::size_t t = 0; t < 4; ++t) {
        const double from = first - 1.0 + static_cast<double>(t);
        result.from[t].push_back(inside(from));
        if (attrs_.flag("excludeOutside") && static_cast<double>(inside(from)) != from) {
          weights[t] = 0.0;
        }
        total += weights[t];
      }
      for (std::size_t t = 0; t < 4; ++t) {
        const bool whole = !attrs_.flag("excludeOutside") || total == 0.0;
        result.weights[t].push_back(whole ? weights[t] : weights[t] / total);
      }
    }
    return result;
  }

 private:
  std::int64_t inside(double at) const {
    return static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(extent_ - 1)));
  }

  /// The weights of the elements -1, 0, 1, 2 for a place between 0 and 1.
  std::array<double, 4> tapsAt(double t) const {
    if (attrs_.text("mode") == "linear") {
      return {0.0, 1.0 - t, t, 0.0};
    }
    const double a = attrs_.real("cubicCoefficient");
    const auto nearPart = [a](double d) { return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0; };
    const auto farPart = [a](double d) { return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a; };
    return {farPart(1.0 + t), nearPart(t), nearPart(1.0 - t), farPart(2.0 - t)};
  }

  const ir::Attrs& attrs_;
  std::int64_t extent_;
  std::int64_t size_;
  double scale_ = 1.0;
  double width_ = 1.0;
  double start_ = 0.0;
  double end_ = 1.0;
};

bool isIdentity(const std::vector<std::int64_t>& list, std::int64_t extent) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] != static_cast<std::int64_t>(i)) {
      return false;
    }
  }
  return static_cast<std::int64_t>(list.size()) == extent;
}

/// [size, extent] in double: what each element of the input counts for.
HostTensor matrixOf(const Taps& taps, const ResizedAxis& along) {
  HostTensor matrix(DType::F64, Shape{along.size(), along.extent()});
  const auto out = matrix.data<double>();
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::int64_t i = 0; i < along.size(); ++i) {
      const auto row = static_cast<std::size_t>(i);
      out[static_cast<std::size_t>(i * along.extent() + taps.from[t][row])] += taps.weights[t][row];
    }
  }
  return matrix;
}

bool isIdentity(const Taps& taps, std::int64_t extent) {
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::size_t i = 0; i < taps.from[t].size(); ++i) {
      const bool own = taps.from[t][i] == static_cast<std::int64_t>(i);
      if (t == 1 ? !own || taps.weights[t][i] != 1.0 : taps.weights[t][i] != 0.0) {
        return false;
      }
    }
  }
  return static_cast<std::int64_t>(taps.from[0].size()) == extent;
}

Value pickNearest(GraphBuilder& b, Value x, const ResizedAxis& along, std::int64_t axis) {
  const std::vector<std::int64_t> list = along.nearest();
  if (isIdentity(list, along.extent())) {
    return x;
  }
  const Value indices = b.constant(
      HostTensor::of<std::int64_t>(Shape{along.size()}, std::span<const std::int64_t>(list)));
  return gather(b, x, indices, axis);
}

/// The sum of weighted gathers, for axes whose matrix would be large and nearly empty.
Value addTaps(GraphBuilder& b, Value x, const Taps& taps, std::int64_t axis) {
  const auto size = static_cast<std::int64_t>(taps.from[0].size());
  std::vector<std::int64_t> dims(b.shape(x).dims().size(), 1);
  dims[static_cast<std::size_t>(axis)] = size;
  Value sum;
  for (std::size_t t = 0; t < 4; ++t) {
    const std::vector<double>& weights = taps.weights[t];
    if (std::ranges::all_of(weights, [](double weight) { return weight == 0.0; })) {
      continue;
    }
    const Value from = b.constant(
        HostTensor::of<std::int64_t>(Shape{size}, std::span<const std::int64_t>(taps.from[t])));
    const HostTensor factors =
        HostTensor::of<double>(Shape(dims), std::span<const double>(weights));
    const Value term = mul(b, gather(b, x, from, axis), b.constant(cast(factors, b.dtype(x))));
    sum = sum.valid() ? add(b, sum, term) : term;
  }
  return sum.valid() ? sum : full(b, {b.dtype(x), withExtent(b.shape(x), axis, size)}, 0.0);
}

Value interpolate(GraphBuilder& b, Value x, const ResizedAxis& along, std::int64_t axis) {
  const Taps taps = along.taps();
  if (isIdentity(taps, along.extent())) {
    return x;
  }
  if (along.extent() > kMaxMatrix / along.size()) {
    return addTaps(b, x, taps, axis);
  }
  const Shape shape = b.shape(x);
  const Value weights = b.constant(cast(matrixOf(taps, along), b.dtype(x)));
  if (axis == shape.rank() - 1) {
    const Value rows = reshape(b, x, Shape{shape.elements() / shape[axis], shape[axis]});
    return reshape(
        b, matmul(b, rows, weights, {.transposeB = true}), withExtent(shape, axis, along.size()));
  }
  const AxisView view = aroundAxis(shape, axis);
  const Value blocks = reshape(b, x, Shape{view.outer, view.extent, view.inner});
  return reshape(b, matmul(b, weights, blocks), withExtent(shape, axis, along.size()));
}

/// True where every axis takes from inside of the input.
HostTensor insideMask(const ir::OpView& op) {
  const Shape& shape = op.outputs[0].shape;
  HostTensor mask = HostTensor::full({DType::Bool, shape}, 1.0);
  const auto out = mask.data<bool>();
  const std::vector<std::int64_t> strides = shape.strides();
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    const ResizedAxis along(op, axis);
    std::vector<char> outside;
    for (std::int64_t i = 0; i < along.size(); ++i) {
      outside.push_back(along.outside(i) ? 1 : 0);
    }
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      if (outside[static_cast<std::size_t>(i / strides[axis] % along.size())] != 0) {
        out[static_cast<std::size_t>(i)] = false;
      }
    }
  }
  return mask;
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const TensorType& type = op.outputs[0];
  if (type.shape.elements() == 0) {
    return {full(b, type, 0.0)};
  }
  const bool nearest = op.attrs.text("mode") == "nearest";
  const DType computed = nearest || isFloat(type.dtype) ? type.dtype : DType::F32;
  Value y = cast(b, inputs[0], computed);
  bool crops = false;
  for (std::size_t i = 0; i < type.shape.dims().size(); ++i) {
    const ResizedAxis along(op, i);
    const auto axis = static_cast<std::int64_t>(i);
    y = nearest ? pickNearest(b, y, along, axis) : interpolate(b, y, along, axis);
    crops = along.crops();
  }
  if (crops) {
    const Value value = b.scalar(computed, op.attrs.real("extrapolationValue"));
    y = where(b, b.constant(insideMask(op)), y, value);
  }
  y = cast(b, y, type.dtype);
  return {y == inputs[0] ? identity(b, y) : y};
}

constexpr ir::OnnxName kOnnx[] = {
    {"Resize", 10}, {"Resize", 11}, {"Resize", 13}, {"Upsample", 7}, {"Upsample", 9}};

}  // namespace

constinit const ir::OpDef kResize{
    .name = "resize", .attrs = kAttrs, .infer = infer, .decompose = decompose, .onnx = kOnnx};

Value resize(GraphBuilder& b, Value x, const ResizeOptions& options) {
  return b.add(kResize,
               {x},
               {{"sizes", options.sizes},
                {"scales", options.scales},
                {"mode", options.mode},
                {"coordinates", options.coordinates},
                {"nearest", options.nearest},
                {"cubicCoefficient", options.cubicCoefficient},
                {"excludeOutside", options.excludeOutside},
                {"roi", options.roi},
                {"extrapolationValue", options.extrapolationValue}});
}

}  // namespace sluice::ops
