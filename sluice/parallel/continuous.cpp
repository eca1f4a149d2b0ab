#include "sluice/parallel/continuous.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/parallel/op_replacer.h"

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;
using ir::Pass;
using ir::Value;

/// Backward ops read each assigned variable anew instead of what the forward pass has read.
void readAgain(ir::Graph& graph) {
  std::unordered_set<std::string> assigned;
  for (const OpId id : graph.order()) {
    if (graph.op(id).is(ir::kAssign)) {
      assigned.insert(graph.op(id).attrs.text("var"));
    }
  }
  OpReplacer replacer(graph);
  const std::vector<OpId> before(graph.order().begin(), graph.order().end());
  for (const OpId id : before) {
    const Op& op = graph.op(id);
    std::vector<Value> inputs = op.inputs;
    for (Value& v : inputs) {
      const Op& read = graph.op(v.op);
      if (op.place.pass != Pass::Forward && read.is(ir::kVariable) &&
          read.place.pass == Pass::Forward && assigned.contains(read.attrs.text("var"))) {
        v = {replacer.copy(read, {}, read.name, op.place), v.out};
      }
    }
    replacer.replace(op, std::move(inputs));
  }
  replacer.finish();
}

void joinStage(ir::Graph& graph, const Op& op, std::int32_t stage, std::int32_t device) {
  // A read is no work: the reader's device gets a copy of the variable.
  const bool leaf = op.is(ir::kVariable) || op.is(ir::kConstant);
  if (op.place.device != device && !leaf) {
    raise<Unsupported>(
        "continuous weight updates: '{}' of the update joins values of devices {} and {}; use an "
        "optimizer whose updates are independent of each other",
        op.name,
        device,
        op.place.device);
  }
  ir::Placement place = op.place;
  place.pass = Pass::Backward;
  place.stage = stage;
  place.device = device;
  graph.setPlacement(op.id, place);
}

}  // namespace

void updateContinuously(ir::Graph& graph) {
  readAgain(graph);
  const std::vector<OpId> order(graph.order().begin(), graph.order().end());
  // With the gradient it uses; what uses none, with its first reader that does.
  for (const OpId id : order) {
    const Op& op = graph.op(id);
    if (op.place.pass != Pass::Update) {
      continue;
    }
    for (const Value v : op.inputs) {
      const Op& producer = graph.op(v.op);
      const bool leaf = producer.is(ir::kVariable) || producer.is(ir::kConstant);
      if (producer.place.pass == Pass::Backward && !leaf) {
        joinStage(graph, op, producer.place.stage, producer.place.device);
        break;
      }
    }
  }
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Op& user = graph.op(*id);
    if (user.place.pass != Pass::Backward) {
      continue;
    }
    for (const Value v : user.inputs) {
      const Op& op = graph.op(v.op);
      if (op.place.pass == Pass::Update) {
        joinStage(graph, op, user.place.stage, user.place.device);
      }
    }
  }
}

}  // namespace sluice::parallel
