// gather: rows of x along one axis, chosen by indices; the indices' shape takes the place of the
// axis. Negative indices count from the end.
#include <array>
#include <cstring>

#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{{.name = "axis", .kind = ir::AttrKind::Int}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireIndices(op, 1);
  const std::int64_t axis = axisAttr(op, op.inputs[0].shape);
  std::vector<std::int64_t> dims = op.inputs[0].shape.dims();
  const std::vector<std::int64_t>& chosen = op.inputs[1].shape.dims();
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, chosen.begin(), chosen.end());
  return {{op.inputs[0].dtype, Shape(std::move(dims))}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Value zeros = full(g.b, g.op.inputs[0], 0.0);
  return {scatterAdd(g.b, zeros, g.input(1), g.grad(), g.op.integer("axis")), Value()};
}

void reference(const ir::KernelArgs& args) {
  const AxisView view =
      aroundAxis(args.op.inputs[0].shape, axisAttr(args.op, args.op.inputs[0].shape));
  const std::size_t run = static_cast<std::size_t>(view.inner) * byteSize(args.op.inputs[0].dtype);
  if (args.op.outputs[0].bytes() == 0) {
    return;
  }
  const std::vector<std::int64_t> indices = readIndices(args, 1, view.extent);
  const auto* in = static_cast<const std::byte*>(args.inputs[0]);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (const std::int64_t index : indices) {
      std::memcpy(out, in + static_cast<std::size_t>(o * view.extent + index) * run, run);
      out += run;
    }
  }
}

constexpr ir::OnnxName kOnnx[] = {{"Gather", 1}, {"Gather", 11}};

}  // namespace

constinit const ir::OpDef kGather{.name = "gather",
                                  .minInputs = 2,
                                  .maxInputs = 2,
                                  .attrs = kAttrs,
                                  .infer = infer,
                                  .grad = grad,
                                  .gradReads = {.inputs = 0b10},
                                  .cost = costOfMove,
                                  .reference = reference,
                                  .onnx = kOnnx};

Value gather(GraphBuilder& b, Value x, Value indices, std::int64_t axis) {
  return b.add(kGather, {x, indices}, {{"axis", axis}});
}

}  // namespace sluice::ops
