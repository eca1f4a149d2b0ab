#include "sluice/parallel/recompute.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sluice/parallel/op_replacer.h"

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;
using ir::Pass;
using ir::Value;

class Recomputer {
 public:
  Recomputer(ir::Graph& graph, std::int32_t last) : graph_(graph), last_(last) {
    for (const OpId id : graph.order()) {
      const Op& op = graph.op(id);
      if (op.place.pass != Pass::Forward) {
        continue;
      }
      for (const Value v : op.inputs) {
        const bool leaves = graph.op(v.op).place.stage != op.place.stage;
        if (leaves || op.def->name == "recomputation_checkpoint") {
          kept_.insert(v.op);
        }
      }
    }
  }

  void run() {
    const std::vector<OpId> before(graph_.order().begin(), graph_.order().end());
    for (const OpId id : before) {
      const Op& op = graph_.op(id);
      std::vector<Value> inputs = op.inputs;
      if (op.place.pass == Pass::Backward && op.place.stage < last_) {
        for (Value& v : inputs) {
          v = again(v, op);
        }
      }
      replacer_.replace(op, std::move(inputs));
    }
    replacer_.finish();
  }

 private:
  /// Whether the op is repeated in the backward pass of its stage.
  bool repeats(const Op& op) const {
    const bool leaf = op.is(ir::kInput) || op.is(ir::kConstant) || op.is(ir::kVariable);
    return !leaf && op.place.pass == Pass::Forward && !op.def->traits.effect &&
           !op.def->traits.once && !kept_.contains(op.id);
  }

  /// The value as the backward op `user` reads it.
  Value again(Value v, const Op& user) {
    const Op& op = graph_.op(v.op);
    if (!repeats(op) || op.place.stage != user.place.stage) {
      return v;
    }
    if (const auto known = clones_.find(v.op); known != clones_.end()) {
      return {known->second, v.out};
    }
    std::vector<Value> inputs = op.inputs;
    for (Value& input : inputs) {
      input = again(input, user);
    }
    ir::Placement place = op.place;
    place.pass = Pass::Backward;
    const OpId made = replacer_.copy(op, std::move(inputs), "again/" + op.name, place);
    clones_.emplace(v.op, made);
    return {made, v.out};
  }

  ir::Graph& graph_;
  std::int32_t last_;
  std::unordered_set<OpId> kept_;
  std::unordered_map<OpId, OpId> clones_;
  OpReplacer replacer_{graph_};
};

}  // namespace

void recomputeActivations(ir::Graph& graph, std::int32_t last) {
  Recomputer(graph, last).run();
}

}  // namespace sluice::parallel
