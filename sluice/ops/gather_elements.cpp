// gather_elements: for each index the element of x at that coordinate of one axis and at the
// index's own coordinates of all other axes. Negative indices count from the end.
#include <array>

#include "sluice/ops/indexed.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{{.name = "axis", .kind = ir::AttrKind::Int}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  checkElements(op);
  return {{op.inputs[0].dtype, op.inputs[1].shape}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Value zeros = full(g.b, g.op.inputs[0], 0.0);
  return {scatterElements(g.b, zeros, g.input(1), g.grad(), g.op.integer("axis"), "add"), Value()};
}

void reference(const ir::KernelArgs& args) {
  gatherPlaces(args, elementPlaces(args, axisAttr(args.op, args.op.inputs[0].shape)));
}

constexpr ir::OnnxName kOnnx[] = {{"GatherElements", 11}, {"GatherElements", 13}};

}  // namespace

constinit const ir::OpDef kGatherElements{.name = "gather_elements",
                                          .minInputs = 2,
                                          .maxInputs = 2,
                                          .attrs = kAttrs,
                                          .infer = infer,
                                          .grad = grad,
                                          .gradReads = {.inputs = 0b10},
                                          .cost = costOfMove,
                                          .reference = reference,
                                          .onnx = kOnnx};

Value gatherElements(GraphBuilder& b, Value x, Value indices, std::int64_t axis) {
  return b.add(kGatherElements, {x, indices}, {{"axis", axis}});
}

}  // namespace sluice::ops
