#include "sluice/api/marked_loss.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice {
namespace {

/// The op and all that it depends on.
std::unordered_set<ir::OpId> sourcesOf(const ir::Graph& graph, ir::OpId op) {
  std::unordered_set<ir::OpId> sources = {op};
  // Readers come after what they read, so one walk from the end sees them first.
  for (std::size_t i = graph.numOps(); i-- > 0;) {
    const ir::OpId id = graph.order()[i];
    if (sources.contains(id)) {
      for (const ir::Value value : graph.op(id).inputs) {
        sources.insert(value.op);
      }
    }
  }
  return sources;
}

/// The last marked op; invalid if there is none.
ir::Value finalLoss(const ir::Graph& graph) {
  std::vector<ir::OpId> marked;
  for (const ir::OpId id : graph.order()) {
    if (graph.op(id).is(ops::kIdentityLoss)) {
      marked.push_back(id);
    }
  }
  if (marked.empty()) {
    return {};
  }
  const std::unordered_set<ir::OpId> sources = sourcesOf(graph, marked.back());
  for (const ir::OpId id : marked) {
    if (!sources.contains(id)) {
      raise<InvalidArgument>(
          "the model has several losses: '{}' does not feed '{}'; add them up and mark the sum "
          "with identityLoss",
          graph.op(id).name,
          graph.op(marked.back()).name);
    }
  }
  return graph.op(marked.back()).out();
}

}  // namespace

std::optional<std::size_t> markedLossOutput(ir::Graph& graph) {
  ir::Value loss = finalLoss(graph);
  if (!loss.valid()) {
    return std::nullopt;
  }
  if (graph.type(loss).shape.rank() != 0) {
    ir::GraphBuilder b(graph);
    b.place = graph.op(loss.op).place;
    b.scope = graph.op(loss.op).name + "/";
    loss = ops::reduceSum(b, loss, {}, false);
  }
  const auto outputs = graph.outputs();
  const auto found = std::ranges::find(outputs, loss, &ir::Output::value);
  const auto position = static_cast<std::size_t>(found - outputs.begin());
  if (position == outputs.size()) {
    graph.addOutput("loss", loss);
  }
  return position;
}

void requireLossLast(const ir::Graph& graph, std::size_t minimised) {
  const ir::Output& last = graph.outputs()[minimised];
  const std::unordered_set<ir::OpId> feeding = sourcesOf(graph, last.value.op);
  for (const ir::Output& output : graph.outputs()) {
    const std::unordered_set<ir::OpId> sources = sourcesOf(graph, output.value.op);
    const auto loss = std::ranges::find_if(graph.order(), [&](ir::OpId id) {
      return graph.op(id).def->traits.loss && sources.contains(id) && !feeding.contains(id);
    });
    if (loss != graph.order().end()) {
      raise<InvalidArgument>(
          "a training model minimises the last tensor that forward returns, '{}' (made by {} "
          "'{}'), "
          "and that does not depend on the {} '{}' of '{}': return the loss last, or mark what is "
          "to "
          "be minimised with identityLoss",
          last.name,
          graph.op(last.value.op).def->name,
          graph.op(last.value.op).name,
          graph.op(*loss).def->name,
          graph.op(*loss).name,
          output.name);
    }
  }
}

}  // namespace sluice
