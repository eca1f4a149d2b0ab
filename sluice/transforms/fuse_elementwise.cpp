// A group is a set of ops that becomes one op at the position of its last member:
//
//     a = mul(x, y)          a -+               a = ...
//     s = reduce_sum(p)         |     =>        s = reduce_sum(p)
//     b = exp(a)             b -+               a, b = fused(x, y)
//     u = matmul(a, b)                          u = matmul(a, b)
//
// Members before the last one move down, everything else stays. So a group is right if every reader
// outside it stands behind its last member, and no variable that a member reads is assigned to
// between the member and the last one. That also makes it convex: a path from a member through an
// outsider back into a member would need an outsider between them. And it makes groups independent
// of each other, so that all of them are found first and applied together.
#include "sluice/transforms/fuse_elementwise.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/fused.h"
#include "sluice/transforms/fusion_body.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

enum class Mode { Elementwise, Epilogues };

class Fuser {
 public:
  Fuser(ir::Graph& graph, Mode mode, Accepts accepts)
      : graph_(graph),
        mode_(mode),
        accepts_(accepts),
        users_(graph.users()),
        positions_(graph.numIds()),
        groupOf_(graph.numIds(), kNone) {
    std::size_t position = 0;
    for (const OpId id : graph.order()) {
      const Op& op = graph.op(id);
      if (op.is(ir::kAssign)) {
        assigns_[op.attrs.text("var")].push_back(position);
      }
      positions_[id] = position++;
    }
  }

  bool run() {
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (isMember(op)) {
        place(op);
      }
    }
    return apply();
  }

 private:
  using Group = std::vector<OpId>;  // in order
  static constexpr std::size_t kNone = ~std::size_t{0};

  std::size_t positionOf(OpId id) const { return positions_[id]; }

  bool isAnchor(const Op& op) const {
    return mode_ == Mode::Epilogues && ops::isFusionAnchor(*op.def);
  }
  bool isMember(const Op& op) const {
    const bool body = mode_ == Mode::Epilogues && op.is(ops::kFused) &&
                      ops::anchorOf(op.attrs.subgraph("body")) == nullptr;
    return body || isAnchor(op) || ops::isFusible(*op.def);
  }

  /// Puts an op into a group with as many of its producers' groups as the rules allow.
  void place(const Op& op) {
    Group group = {op.id};
    std::vector<std::size_t> taken;
    for (const Value v : isAnchor(op) ? std::vector<Value>() : op.inputs) {
      const std::size_t found = groupOf_[v.op];
      if (found == kNone || std::ranges::find(taken, found) != taken.end()) {
        continue;
      }
      Group merged = groups_[found];
      merged.insert(merged.end(), group.begin(), group.end());
      std::ranges::sort(merged, {}, [&](OpId id) { return positionOf(id); });
      if (isValid(merged)) {
        group = std::move(merged);
        taken.push_back(found);
      }
    }
    for (const std::size_t old : taken) {
      groups_[old].clear();
    }
    for (const OpId id : group) {
      groupOf_[id] = groups_.size();
    }
    groups_.push_back(std::move(group));
  }

  bool isValid(const Group& group) const {
    if (group.size() > kMaxFusedOps + 1) {  // one may be an anchor; a member has an op or more
      return false;
    }
    const std::size_t last = positionOf(group.back());
    const Op& model = graph_.op(group.back());
    std::size_t anchors = 0;
    for (const OpId id : group) {
      const Op& op = graph_.op(id);
      anchors += isAnchor(op) ? 1 : 0;
      if (op.place != model.place || op.outputs[0].shape != model.outputs[0].shape ||
          !isMovable(op, group, last)) {
        return false;
      }
    }
    if (anchors > 1 || (anchors == 1 && !anchorsOwnOperands(group))) {
      return false;
    }
    const BodySize size = bodySize(graph_, group);
    return size.ops - anchors <= kMaxFusedOps && size.operands <= kMaxFusedOperands;
  }

  /// Whether no operand of an anchor is read twice, so that devices may choose its layout.
  bool anchorsOwnOperands(const Group& group) const {
    std::unordered_map<Value, int> reads;
    for (const OpId id : group) {
      for (const Value v : graph_.op(id).inputs) {
        ++reads[v];
      }
    }
    return std::ranges::all_of(group, [&](OpId id) {
      const Op& op = graph_.op(id);
      return !isAnchor(op) ||
             std::ranges::all_of(op.inputs, [&](Value v) { return reads.at(v) == 1; });
    });
  }

  /// Whether a member may run at position `last` instead of its own.
  bool isMovable(const Op& op, const Group& members, std::size_t last) const {
    const auto isMember = [&](OpId id) { return std::ranges::find(members, id) != members.end(); };
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      for (const ir::Use& use : users_.of(op.out(i))) {
        if ((isAnchor(op) || positionOf(use.op) < last) && !isMember(use.op)) {
          return false;
        }
      }
      if (isAnchor(op) && users_.isOutput(op.out(i))) {
        return false;
      }
    }
    return std::ranges::none_of(op.inputs, [&](Value v) {
      return (isAnchor(op) && isMember(v.op)) || isAssignedBetween(v, positionOf(op.id), last);
    });
  }

  /// Whether `value` is a variable's value, possibly seen through views, and that variable is
  /// assigned to at a position in (first, last).
  bool isAssignedBetween(Value value, std::size_t first, std::size_t last) const {
    const Op* op = &graph_.op(value.op);
    while (op->def->traits.view) {
      op = &graph_.op(op->inputs[0].op);
    }
    if (!op->is(ir::kVariable)) {
      return false;
    }
    const auto found = assigns_.find(op->attrs.text("var"));
    return found != assigns_.end() && std::ranges::any_of(found->second, [&](std::size_t at) {
             return at > first && at < last;
           });
  }

  bool isWorthwhile(const Group& group) const {
    return group.size() > 1 &&
           (mode_ == Mode::Elementwise ||
            std::ranges::any_of(group, [&](OpId id) { return isAnchor(graph_.op(id)); }));
  }

  bool isAccepted(const FusionBody& body, const Group& group) const {
    const ir::Attrs attrs = {{"body", ir::GraphRef(body.graph)}};
    std::vector<TensorType> inputs;
    std::vector<TensorType> outputs;
    for (const Value v : body.operands) {
      inputs.push_back(graph_.type(v));
    }
    for (const Value v : body.results) {
      outputs.push_back(graph_.type(v));
    }
    return accepts_({ops::kFused, attrs, inputs, outputs}, graph_.op(group.back()).place);
  }

  bool apply() {
    std::unordered_map<OpId, OpId> fusedAfter;  // last member -> fused op
    std::unordered_map<Value, Value> replacements;
    std::vector<OpId> gone;
    const std::vector<OpId> before(graph_.order().begin(), graph_.order().end());
    for (const Group& group : groups_) {
      if (!isWorthwhile(group)) {
        continue;
      }
      FusionBody body = makeBody(graph_, users_, group);
      if (body.results.empty() || !isAccepted(body, group)) {  // or nobody reads any of it
        continue;
      }
      const OpId fused = graph_.append({.def = ops::kFused,
                                        .inputs = std::move(body.operands),
                                        .attrs = {{"body", ir::GraphRef(body.graph)}},
                                        .name = graph_.op(group.back()).name,
                                        .place = graph_.op(group.back()).place});
      for (std::size_t i = 0; i < body.results.size(); ++i) {
        replacements.emplace(body.results[i], graph_.op(fused).out(i));
      }
      fusedAfter.emplace(group.back(), fused);
      gone.insert(gone.end(), group.begin(), group.end());
    }
    std::vector<OpId> order;
    for (const OpId id : before) {
      order.push_back(id);
      if (const auto found = fusedAfter.find(id); found != fusedAfter.end()) {
        order.push_back(found->second);
      }
    }
    graph_.reorder(std::move(order));
    graph_.replaceUses(replacements);
    graph_.remove(gone);
    return !gone.empty();
  }

  ir::Graph& graph_;
  Mode mode_;
  Accepts accepts_;
  ir::Users users_;
  ById<OpId, std::size_t> positions_;
  std::unordered_map<std::string, std::vector<std::size_t>> assigns_;
  std::vector<Group> groups_;  // emptied when merged into a later one
  ById<OpId, std::size_t> groupOf_;
};

/// Fused ops stand later than their first members did, which can allow further groups.
bool fuseUntilDone(ir::Graph& graph, Mode mode, Accepts accepts) {
  bool changed = false;
  while (Fuser(graph, mode, accepts).run()) {
    changed = true;
  }
  return changed;
}

constexpr auto kAcceptAll = [](const ir::OpView&, const ir::Placement&) { return true; };

}  // namespace

bool fuseElementwise(ir::Graph& graph) {
  return fuseElementwiseIf(graph, kAcceptAll);
}

bool fuseElementwiseIf(ir::Graph& graph, Accepts accepts) {
  return fuseUntilDone(graph, Mode::Elementwise, accepts);
}

bool fuseEpilogues(ir::Graph& graph) {
  return fuseEpiloguesIf(graph, kAcceptAll);
}

bool fuseEpiloguesIf(ir::Graph& graph, Accepts accepts) {
  return fuseUntilDone(graph, Mode::Epilogues, accepts);
}

}  // namespace sluice::transforms
