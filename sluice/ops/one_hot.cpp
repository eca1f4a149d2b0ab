// one_hot: a new axis of extent `depth` that is 1 at the index and 0 elsewhere. Negative indices
// count from the end; an index out of range gives zeros only.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 3> kAttrs = {
    {{.name = "depth", .kind = ir::AttrKind::Int, .required = true},
     {.name = "axis", .kind = ir::AttrKind::Int, .integer = -1},
     {.name = "dtype", .kind = ir::AttrKind::Text, .text = "f32"}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireIndices(op, 0);
  const std::int64_t depth = op.integer("depth");
  if (depth < 0) {
    raise<InvalidArgument>("one_hot: depth must not be negative, got {}", depth);
  }
  std::vector<std::int64_t> dims = op.inputs[0].shape.dims();
  dims.push_back(1);
  const std::int64_t axis = axisAttr(op, Shape(dims));
  dims.pop_back();
  dims.insert(dims.begin() + axis, depth);
  return {{dtypeAttr(op), Shape(std::move(dims))}};
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.outputs[0].shape;
  const AxisView view = aroundAxis(shape, axisAttr(args.op, shape));
  const auto mark = [&](auto indices, auto out) {
    using T = typename decltype(out)::value_type;
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const std::int64_t at = i / view.inner % view.extent;
      const std::int64_t from = i / view.inner / view.extent * view.inner + i % view.inner;
      const auto index = static_cast<std::int64_t>(indices[static_cast<std::size_t>(from)]);
      const bool hot = index == at || index == at - view.extent;
      out[static_cast<std::size_t>(i)] = narrow<T>(static_cast<Wide<T>>(hot ? 1 : 0));
    }
  };
  dispatch(args.op.outputs[0].dtype, [&]<class T>(T) {
    if (args.op.inputs[0].dtype == DType::I32) {
      mark(args.in<std::int32_t>(0), args.out<T>(0));
    } else {
      mark(args.in<std::int64_t>(0), args.out<T>(0));
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"OneHot", 9}, {"OneHot", 11}};

}  // namespace

constinit const ir::OpDef kOneHot{
    .name = "one_hot", .attrs = kAttrs, .infer = infer, .reference = reference, .onnx = kOnnx};

Value oneHot(GraphBuilder& b, Value indices, std::int64_t depth, DType dtype, std::int64_t axis) {
  return b.add(kOneHot, {indices}, {{"depth", depth}, {"axis", axis}, {"dtype", name(dtype)}});
}

}  // namespace sluice::ops
