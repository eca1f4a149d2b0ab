// concat: the inputs one after the other along one axis.
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "axis", .kind = ir::AttrKind::Int, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireSameDType(op);
  const Shape& first = op.inputs[0].shape;
  const std::int64_t axis = axisAttr(op, first);
  std::int64_t extent = 0;
  for (const TensorType& type : op.inputs) {
    if (type.shape.rank() != first.rank() ||
        withExtent(type.shape, axis, 0) != withExtent(first, axis, 0)) {
      raise<InvalidArgument>(
          "concat: {} and {} differ in more than axis {}", first.str(), type.shape.str(), axis);
    }
    extent += type.shape[axis];
  }
  return {{op.inputs[0].dtype, withExtent(first, axis, extent)}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Shape& whole = g.op.outputs[0].shape;
  const auto axis = static_cast<std::size_t>(axisAttr(g.op, whole));
  std::vector<Value> grads(g.numInputs());
  std::vector<std::int64_t> starts(whole.dims().size(), 0);
  std::vector<std::int64_t> ends = whole.dims();
  for (std::size_t i = 0; i < grads.size(); ++i) {
    ends[axis] = starts[axis] + g.op.inputs[i].shape.dims()[axis];
    if (g.needs(i)) {
      grads[i] = slice(g.b, g.grad(), starts, ends);
    }
    starts[axis] = ends[axis];
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  const std::int64_t axis = axisAttr(args.op, args.op.outputs[0].shape);
  const std::size_t size = byteSize(args.op.outputs[0].dtype);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  for (std::int64_t o = 0; o < aroundAxis(args.op.outputs[0].shape, axis).outer; ++o) {
    for (std::size_t i = 0; i < args.inputs.size(); ++i) {
      const AxisView view = aroundAxis(args.op.inputs[i].shape, axis);
      const std::size_t run = static_cast<std::size_t>(view.extent * view.inner) * size;
      if (run != 0) {
        const auto* in = static_cast<const std::byte*>(args.inputs[i]);
        std::memcpy(out, in + static_cast<std::size_t>(o) * run, run);
        out += run;
      }
    }
  }
}

constexpr ir::OnnxName kOnnx[] = {{"Concat", 4}, {"Concat", 11}};

}  // namespace

constinit const ir::OpDef kConcat{.name = "concat",
                                  .maxInputs = ir::kVariadic,
                                  .attrs = kAttrs,
                                  .infer = infer,
                                  .grad = grad,
                                  .reference = reference,
                                  .onnx = kOnnx};

Value concat(GraphBuilder& b, std::vector<Value> values, std::int64_t axis) {
  return b.add(kConcat, std::move(values), {{"axis", axis}});
}

}  // namespace sluice::ops
