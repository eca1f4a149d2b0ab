// The gradient of a branch is a branch: each of its bodies computes a body of the forward branch
// again and then its gradient. The two forward bodies have no values in common that could be kept.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "sluice/ops/control_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/differentiator.h"
#include "sluice/transforms/eliminate_dead.h"

namespace sluice::transforms {
namespace {

using ir::OpId;
using ir::Value;

/// A body of the branch, followed by its gradient; outputs are not chosen yet.
struct BranchBody {
  ir::Graph graph;
  std::vector<Value> gradients = {};  ///< by input; no value if it gets none
};

BranchBody differentiated(const ir::Graph& body,
                          const std::vector<bool>& needed,
                          const std::vector<bool>& given) {
  BranchBody made{.graph = body};
  const std::vector<OpId> inputs = body.inputs();
  std::vector<Value> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (needed[i]) {
      wanted.push_back({inputs[i], 0});
    }
  }
  Differentiator walk(made.graph, wanted);
  for (std::size_t i = given.size(); i-- > 0;) {
    const Value output = body.outputs()[i].value;
    if (given[i]) {  // an input even where nothing needs it: both bodies take the same
      const std::string name = fmt::format("seed{}", i);
      const Value seed = walk.builder().input(name, body.type(output));
      if (walk.needs(output)) {
        walk.contribute(output, seed);
      }
    }
  }
  walk.run();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    made.gradients.push_back(needed[i] ? walk.gradientOf({inputs[i], 0}) : Value());
  }
  return made;
}

/// The body with the gradients of these inputs as outputs, and zeros for those that get none.
ir::GraphRef finished(BranchBody made, const std::vector<std::size_t>& inputs) {
  ir::Graph& graph = made.graph;
  const std::vector<OpId> order(graph.order().begin(), graph.order().end());
  std::size_t number = 0;
  for (const OpId id : order) {
    graph.setPlacement(id, {});
    if (graph.op(id).is(ir::kInput)) {
      graph.setName(id, fmt::format("in{}", number++));
    }
  }
  ir::GraphBuilder b(graph);
  std::vector<ir::Output> outputs;
  for (const std::size_t i : inputs) {
    const TensorType& type = graph.op(graph.inputs()[i]).outputs[0];
    const Value gradient = made.gradients[i].valid() ? made.gradients[i] : ops::full(b, type, 0.0);
    outputs.push_back({fmt::format("out{}", outputs.size()), gradient});
  }
  graph.setOutputs(std::move(outputs));
  eliminateDead(graph);
  return std::make_shared<const ir::Graph>(std::move(graph));
}

}  // namespace

void Differentiator::differentiateBranch(const ir::Op& op, std::span<const Value> outputGrads) {
  std::vector<bool> needed;
  std::vector<bool> given;
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    needed.push_back(needs(op.inputs[i]));
  }
  std::vector<Value> operands(op.inputs.begin() + 1, op.inputs.end());
  for (std::size_t i = outputGrads.size(); i-- > 0;) {
    if (outputGrads[i].valid()) {
      operands.push_back(outputGrads[i]);
    }
  }
  for (const Value v : outputGrads) {
    given.push_back(v.valid());
  }
  BranchBody yes = differentiated(op.attrs.subgraph("then"), needed, given);
  BranchBody no = differentiated(op.attrs.subgraph("else"), needed, given);
  std::vector<std::size_t> reached;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (yes.gradients[i].valid() || no.gradients[i].valid()) {
      reached.push_back(i);
    }
  }
  if (reached.empty()) {
    return;
  }
  const std::vector<Value> inputs = op.inputs;
  const std::vector<Value> grads = ops::branch(builder_,
                                               inputs[0],
                                               std::move(operands),
                                               finished(std::move(yes), reached),
                                               finished(std::move(no), reached));
  for (std::size_t k = reached.size(); k-- > 0;) {
    contribute(inputs[reached[k] + 1], grads[k]);
  }
}

}  // namespace sluice::transforms
