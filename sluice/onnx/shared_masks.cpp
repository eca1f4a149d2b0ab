#include "sluice/onnx/shared_masks.h"

#include <map>
#include <tuple>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/decompose.h"

namespace sluice::onnx {
namespace {

/// Dropouts for which all of it is equal make the same choice.
using Choice = std::tuple<std::int64_t, double, DType, std::vector<std::int64_t>>;

Choice choiceOf(const ir::Op& op) {
  return {op.attrs.integer("ordinal"),
          op.attrs.real("p"),
          op.outputs[0].dtype,
          op.outputs[0].shape.dims()};
}

}  // namespace

void shareMasks(ir::Graph& graph) {
  std::map<Choice, int> counts;
  for (const ir::OpId id : graph.order()) {
    if (graph.op(id).is(ops::kDropout)) {
      ++counts[choiceOf(graph.op(id))];
    }
  }
  std::map<Choice, ir::Value> masks;
  const auto partsOf = [&](ir::GraphBuilder& b, const ir::Op& op) -> std::vector<ir::Value> {
    if (!op.is(ops::kDropout) || counts.at(choiceOf(op)) < 2) {
      return {};
    }
    ir::Value& mask = masks[choiceOf(op)];
    if (!mask.valid()) {
      mask = b.add(ops::kDropout, {ops::full(b, op.outputs[0], 1.0)}, op.attrs);
    }
    return {ops::mul(b, op.inputs[0], mask)};
  };
  transforms::replaceByParts(graph, partsOf);
}

}  // namespace sluice::onnx
