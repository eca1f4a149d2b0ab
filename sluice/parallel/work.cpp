#include "sluice/parallel/work.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/transforms/autodiff.h"
#include "sluice/transforms/bodies.h"
#include "sluice/transforms/eliminate_dead.h"

namespace sluice::parallel {
namespace {

/// Appends the gradients of all trainable weights as outputs.
void addGradients(ir::Graph& graph, ir::Value loss) {
  std::vector<ir::Value> weights;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (!op.is(ir::kVariable)) {
      continue;
    }
    const ir::Variable& variable = *graph.findVariable(op.attrs.text("var"));
    if (variable.role == ir::VariableRole::Weight && variable.trainable) {
      weights.push_back(op.out());
    }
  }
  for (const ir::Value gradient : transforms::differentiate(graph, loss, weights)) {
    graph.addOutput(fmt::format("{}", graph.outputs().size()), gradient);
  }
}

/// The outputs and the loss, if there is one, by numbers: names of others may be taken.
void numberOutputs(ir::Graph& graph, ir::Value loss) {
  std::vector<ir::Output> outputs;
  for (const ir::Output& output : graph.outputs()) {
    outputs.push_back({fmt::format("{}", outputs.size()), output.value});
  }
  if (loss.valid()) {
    outputs.push_back({fmt::format("{}", outputs.size()), loss});
  }
  graph.setOutputs(std::move(outputs));
}

}  // namespace

std::int64_t nanoseconds(const ir::Graph& graph, const ir::Op& op) {
  if (op.is(ir::kInput) || op.is(ir::kConstant) || op.is(ir::kVariable) || op.def->traits.view) {
    return 0;
  }
  const std::vector<TensorType> types = graph.inputTypes(op);
  ir::Cost cost;
  if (op.def->cost != nullptr) {
    cost = op.def->cost(view(op, types));
  } else {
    for (const TensorType& type : types) {
      cost.bytesRead += static_cast<double>(type.bytes());
    }
    for (const TensorType& type : op.outputs) {
      cost.bytesWritten += static_cast<double>(type.bytes());
    }
  }
  constexpr double kPerOp = 200;
  const double time = cost.flops / 50 + (cost.bytesRead + cost.bytesWritten) / 10;
  return static_cast<std::int64_t>(std::max(kPerOp, time));
}

std::vector<std::int64_t> workOfOps(const ir::Graph& graph,
                                    std::span<const ir::OpId> ops,
                                    ir::Value loss) {
  ir::Graph copy = graph;
  // Parts and gradients of an op inherit its place, so the stage can say which op they are of.
  for (const ir::OpId id : copy.order()) {
    ir::Placement place = copy.op(id).place;
    place.stage = -1;
    copy.setPlacement(id, place);
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ir::Placement place = copy.op(ops[i]).place;
    place.stage = static_cast<std::int32_t>(i);
    copy.setPlacement(ops[i], place);
  }
  numberOutputs(copy, loss);
  transforms::decomposeComposites(copy);
  if (loss.valid()) {
    addGradients(copy, copy.outputs().back().value);
  }
  transforms::eliminateDead(copy);
  std::vector<std::int64_t> work(ops.size(), 0);
  for (const ir::OpId id : copy.order()) {
    const ir::Op& op = copy.op(id);
    if (op.place.stage >= 0) {
      work[static_cast<std::size_t>(op.place.stage)] += nanoseconds(copy, op);
    }
  }
  return work;
}

}  // namespace sluice::parallel
