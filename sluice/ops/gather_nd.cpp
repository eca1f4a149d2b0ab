// gather_nd: the last axis of the indices holds coordinates in x; each such tuple is replaced by
// the element, or by the slice of all axes it leaves open. The first `batchDims` axes of both are
// walked together. Negative indices count from the end.
#include <array>

#include "sluice/ops/indexed.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{{.name = "batchDims", .kind = ir::AttrKind::Int}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  return {{op.inputs[0].dtype, tupleShape(op, op.integer("batchDims"))}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Value zeros = full(g.b, g.op.inputs[0], 0.0);
  return {scatterNd(g.b, zeros, g.input(1), g.grad(), "add", g.op.integer("batchDims")), Value()};
}

void reference(const ir::KernelArgs& args) {
  gatherPlaces(args, tuplePlaces(args, args.op.integer("batchDims")));
}

constexpr ir::OnnxName kOnnx[] = {{"GatherND", 11}, {"GatherND", 12}, {"GatherND", 13}};

}  // namespace

constinit const ir::OpDef kGatherNd{.name = "gather_nd",
                                    .minInputs = 2,
                                    .maxInputs = 2,
                                    .attrs = kAttrs,
                                    .infer = infer,
                                    .grad = grad,
                                    .gradReads = {.inputs = 0b10},
                                    .cost = costOfMove,
                                    .reference = reference,
                                    .onnx = kOnnx};

Value gatherNd(GraphBuilder& b, Value x, Value indices, std::int64_t batchDims) {
  return b.add(kGatherNd, {x, indices}, {{"batchDims", batchDims}});
}

}  // namespace sluice::ops
