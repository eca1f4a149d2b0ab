#include "sluice/transforms/half_scores.h"

#include "sluice/ir/graph.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/decompose.h"

namespace sluice::transforms {
namespace {

/// The scores before they were cast from 16 bits to float32; invalid if they were not.
ir::Value halfScores(const ir::Graph& graph, const ir::Op& op) {
  const ir::Op& maker = graph.op(op.inputs[0].op);
  if (!maker.is(ops::kCast) || maker.outputs[0].dtype != DType::F32) {
    return {};
  }
  const DType from = graph.type(maker.inputs[0]).dtype;
  return from == DType::BF16 || from == DType::F16 ? maker.inputs[0] : ir::Value();
}

}  // namespace

bool readHalfScores(ir::Graph& graph, FunctionRef<bool(const ir::OpView&)> accepts) {
  return replaceByParts(
      graph, [&](ir::GraphBuilder& b, const ir::Op& op) -> std::vector<ir::Value> {
        if (!op.is(ops::kCrossEntropy)) {
          return {};
        }
        const ir::Value scores = halfScores(graph, op);
        if (!scores.valid()) {
          return {};
        }
        ir::Attrs attrs = op.attrs;
        attrs.set({"wideLoss", true});
        const std::vector<TensorType> types = {graph.type(scores), graph.type(op.inputs[1])};
        if (!accepts({*op.def, attrs, types, op.outputs})) {
          return {};
        }
        return b.addMany(ops::kCrossEntropy, {scores, op.inputs[1]}, std::move(attrs));
      });
}

}  // namespace sluice::transforms
