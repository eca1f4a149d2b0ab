#include "sluice/parallel/recompute.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;
using ir::Pass;
using ir::Value;

class Recomputer {
 public:
  Recomputer(ir::Graph& graph, std::int32_t stages) : graph_(graph), stages_(stages) {
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
      if (op.place.pass == Pass::Backward && op.place.stage != stages_ - 1) {
        std::vector<Value> inputs = op.inputs;
        for (Value& v : inputs) {
          v = again(v, op);
        }
        if (inputs != op.inputs) {
          replace(op, std::move(inputs));
          continue;
        }
      }
      order_.push_back(id);
    }
    graph_.replaceUses(replacements_);
    graph_.remove(replaced_);
    graph_.reorder(std::move(order_));
  }

 private:
  /// Whether the op is repeated in the backward pass of its stage.
  bool repeats(const Op& op) const {
    const bool leaf = op.is(ir::kInput) || op.is(ir::kConstant) || op.is(ir::kVariable);
    return !leaf && op.place.pass == Pass::Forward && !op.def->traits.effect &&
           !kept_.contains(op.id);
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
    const OpId made = graph_.append({.def = *op.def,
                                     .inputs = std::move(inputs),
                                     .attrs = op.attrs,
                                     .name = "again/" + op.name,
                                     .place = place,
                                     .types = op.outputs});
    order_.push_back(made);
    clones_.emplace(v.op, made);
    return {made, v.out};
  }

  /// A copy of the backward op that reads other operands takes its place.
  void replace(const Op& op, std::vector<Value> inputs) {
    const OpId made = graph_.append({.def = *op.def,
                                     .inputs = std::move(inputs),
                                     .attrs = op.attrs,
                                     .name = op.name,
                                     .place = op.place,
                                     .types = op.outputs});
    order_.push_back(made);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      replacements_.emplace(op.out(i), Value{made, static_cast<std::uint16_t>(i)});
    }
    replaced_.push_back(op.id);
  }

  ir::Graph& graph_;
  std::int32_t stages_;
  std::vector<OpId> order_;  // the new one
  std::unordered_set<OpId> kept_;
  std::unordered_map<OpId, OpId> clones_;
  std::unordered_map<Value, Value> replacements_;
  std::vector<OpId> replaced_;
};

}  // namespace

void recomputeActivations(ir::Graph& graph, std::int32_t stages) {
  Recomputer(graph, stages).run();
}

}  // namespace sluice::parallel
