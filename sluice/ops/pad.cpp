// pad: more elements before and after each axis: a constant value, the mirrored elements without
// the outermost one (reflect) or the outermost element (edge).
#include <algorithm>
#include <array>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 4> kAttrs = {
    {{.name = "before", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "after", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "mode", .kind = ir::AttrKind::Text, .text = "constant"},
     {.name = "value", .kind = ir::AttrKind::Real}}};

/// The largest padding that `mode` can give an axis; the sum of three extents cannot overflow.
std::int64_t limit(const std::string& mode, std::int64_t extent) {
  if (mode == "reflect") {
    return std::max<std::int64_t>(extent - 1, 0);
  }
  return mode == "edge" && extent == 0 ? 0 : std::numeric_limits<std::int64_t>::max() / 4;
}

std::vector<TensorType> infer(const ir::OpView& op) {
  requireOneOf(op, "mode", {"constant", "reflect", "edge"});
  const Shape& shape = op.inputs[0].shape;
  const auto& before = perAxisAttr(op, "before", shape.rank());
  const auto& after = perAxisAttr(op, "after", shape.rank());
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::int64_t extent = shape.dims()[i];
    const std::int64_t most = limit(op.attrs.text("mode"), extent);
    for (const std::int64_t padding : {before[i], after[i]}) {
      if (padding < 0 || padding > most) {
        raise<InvalidArgument>("pad: padding {} of axis {} is not possible for shape {} by {}",
                               padding,
                               i,
                               shape.str(),
                               op.attrs.text("mode"));
      }
    }
    dims.push_back(before[i] + extent + after[i]);
  }
  return {{op.inputs[0].dtype, Shape(std::move(dims))}};
}

/// Per output coordinate of an axis the input coordinate it shows, -1 for the constant.
std::vector<std::int64_t> sources(const ir::OpView& op, std::size_t axis) {
  const std::string& mode = op.attrs.text("mode");
  const std::int64_t extent = op.inputs[0].shape.dims()[axis];
  std::vector<std::int64_t> list;
  for (std::int64_t i = 0; i < op.outputs[0].shape.dims()[axis]; ++i) {
    std::int64_t at = i - op.attrs.integers("before")[axis];
    if (at < 0 || at >= extent) {
      if (mode == "constant") {
        at = -1;
      } else if (mode == "edge") {
        at = at < 0 ? 0 : extent - 1;
      } else {
        at = at < 0 ? -at : 2 * (extent - 1) - at;
      }
    }
    list.push_back(at);
  }
  return list;
}

std::vector<Value> grad(ir::GradContext& g) {
  const Shape& shape = g.op.inputs[0].shape;
  const std::vector<std::int64_t>& before = g.op.attrs.integers("before");
  if (g.op.attrs.text("mode") == "constant") {
    std::vector<std::int64_t> ends = before;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      ends[i] += shape.dims()[i];
    }
    return {slice(g.b, g.grad(), before, std::move(ends))};
  }
  // Every element gets the gradients of all its copies, one axis after the other.
  Value total = g.grad();
  for (std::int64_t axis = 0; axis < shape.rank(); ++axis) {
    const std::vector<std::int64_t> list = sources(g.op, static_cast<std::size_t>(axis));
    const auto padded = static_cast<std::int64_t>(list.size());
    if (padded != shape[axis]) {
      TensorType type = g.b.type(total);
      type.shape = withExtent(type.shape, axis, shape[axis]);
      const Value indices = g.b.constant(
          HostTensor::of<std::int64_t>(Shape{padded}, std::span<const std::int64_t>(list)));
      total = scatterAdd(g.b, full(g.b, type, 0.0), indices, total, axis);
    }
  }
  return {total};
}

void reference(const ir::KernelArgs& args) {
  std::vector<std::vector<std::int64_t>> coordinates;
  for (std::size_t axis = 0; axis < args.op.inputs[0].shape.dims().size(); ++axis) {
    coordinates.push_back(sources(args.op, axis));
  }
  const AxisMap map(args.op.inputs[0].shape, std::move(coordinates));
  const DType dtype = args.op.inputs[0].dtype;
  const HostTensor value = HostTensor::full({dtype, Shape{}}, args.op.attrs.real("value"));
  dispatch(dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t from = map(static_cast<std::int64_t>(i));
      out[i] = from < 0 ? value.data<T>()[0] : in[static_cast<std::size_t>(from)];
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Pad", 2}, {"Pad", 11}};

}  // namespace

constinit const ir::OpDef kPad{.name = "pad",
                               .attrs = kAttrs,
                               .infer = infer,
                               .grad = grad,
                               .reference = reference,
                               .onnx = kOnnx};

Value pad(GraphBuilder& b,
          Value x,
          std::vector<std::int64_t> before,
          std::vector<std::int64_t> after,
          std::string_view mode,
          double value) {
  return b.add(kPad,
               {x},
               {{"before", std::move(before)},
                {"after", std::move(after)},
                {"mode", mode},
                {"value", value}});
}

}  // namespace sluice::ops
