#include "sluice/transforms/shard_updates.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/eliminate_dead.h"
#include "sluice/transforms/replace_op.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

class Sharder {
 public:
  explicit Sharder(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    replicas_ = findReplicas();
    if (replicas_ == 0) {
      return false;
    }
    const std::uint64_t before = ir::structuralHash(graph_);
    findPartial();
    gatherForWholeReaders();
    moveScattersUp();
    eliminateDead(graph_);
    shareSums();
    return ir::structuralHash(graph_) != before;
  }

 private:
  std::int64_t findReplicas() const {
    for (const OpId id : graph_.order()) {
      if (isUpdate(graph_.op(id), ops::kReplicaScatter)) {
        return graph_.op(id).attrs.integer("replicas");
      }
    }
    return 0;
  }

  /// Exchanges of a micro-batch are the model's own and stay as they are.
  static bool isUpdate(const Op& op, const ir::OpDef& def) {
    return op.is(def) && op.place.pass == ir::Pass::Update;
  }

  /// Whether each element of the result comes from the same elements of operands of its shape.
  bool isElementwise(const Op& op) const {
    return op.def->traits.elementwise && !op.def->traits.effect && !op.def->traits.random &&
           op.outputs.size() == 1 && std::ranges::all_of(op.inputs, [&](Value v) {
             const Shape& shape = graph_.type(v).shape;
             return shape == op.outputs[0].shape || shape.rank() == 0;
           });
  }

  bool isPartial(Value v) const { return partial_.contains(v); }

  /// Values that follow element by element from what is kept in parts.
  void findPartial() {
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (isUpdate(op, ops::kReplicaGather) ||
          (isElementwise(op) &&
           std::ranges::any_of(op.inputs, [&](Value v) { return isPartial(v); }))) {
        partial_.insert(op.out());
      }
    }
  }

  void gatherForWholeReaders() {
    const std::vector<OpId> before(graph_.order().begin(), graph_.order().end());
    std::unordered_map<Value, Value> whole;
    for (const OpId id : before) {
      const Op& op = graph_.op(id);
      if (op.is(ops::kReplicaScatter) || (!op.outputs.empty() && isPartial(op.out()))) {
        continue;
      }
      std::vector<Value> inputs = op.inputs;
      for (Value& v : inputs) {
        if (!isPartial(v) || graph_.op(v.op).is(ops::kReplicaGather)) {
          continue;
        }
        if (!whole.contains(v)) {
          const Value part = insert(id, ops::kReplicaScatter, {v}, {{"replicas", replicas_}}, v);
          const std::span<const std::int64_t> dims = graph_.type(v).shape.dims();
          whole[v] = insert(id,
                            ops::kReplicaGather,
                            {part},
                            {{"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}},
                            v);
        }
        v = whole.at(v);
      }
      if (inputs != op.inputs) {
        replaceOperands(graph_, op, std::move(inputs));
      }
    }
  }

  void moveScattersUp() {
    const std::vector<OpId> before(graph_.order().begin(), graph_.order().end());
    for (const OpId id : before) {
      const Op& op = graph_.op(id);
      if (!isUpdate(op, ops::kReplicaScatter)) {
        continue;
      }
      const Op& producer = graph_.op(op.inputs[0].op);
      if (hasParts(producer) || parts_.contains(op.inputs[0])) {
        graph_.replaceUses({{op.out(), partOf(op.inputs[0], id)}});
      } else {
        parts_.emplace(op.inputs[0], op.out());
      }
    }
  }

  bool hasParts(const Op& producer) const {
    return isUpdate(producer, ops::kReplicaGather) || isUpdate(producer, ops::kReplicaSum) ||
           isElementwise(producer);
  }

  /// The part of a value; what it takes is made in front of `position`, a scatter.
  Value partOf(Value v, OpId position) {
    if (const auto known = parts_.find(v); known != parts_.end()) {
      return known->second;
    }
    const Op& producer = graph_.op(v.op);
    Value part;
    if (isUpdate(producer, ops::kReplicaGather)) {
      part = producer.inputs[0];
    } else if (isUpdate(producer, ops::kReplicaSum)) {
      part =
          insert(position, ops::kReplicaSumScatter, producer.inputs, {{"replicas", replicas_}}, v);
    } else if (isElementwise(producer)) {
      std::vector<Value> inputs = producer.inputs;
      for (Value& input : inputs) {
        input = graph_.type(input).shape.rank() == 0 ? input : partOf(input, position);
      }
      part = {copyBefore(graph_, position, graph_.op(v.op), std::move(inputs)), 0};
    } else {
      part = insert(position, ops::kReplicaScatter, {v}, {{"replicas", replicas_}}, v);
    }
    parts_.emplace(v, part);
    return part;
  }

  /// Of a sum that is needed whole anyway the part is taken.
  void shareSums() {
    std::unordered_map<Value, Value> sums;  // by operand
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (isUpdate(op, ops::kReplicaSum)) {
        sums.emplace(op.inputs[0], op.out());
      }
    }
    const std::vector<OpId> before(graph_.order().begin(), graph_.order().end());
    for (const OpId id : before) {
      const Op& op = graph_.op(id);
      if (!isUpdate(op, ops::kReplicaSumScatter) || !sums.contains(op.inputs[0])) {
        continue;
      }
      const Value sum = sums.at(op.inputs[0]);
      const Value part = insert(id, ops::kReplicaScatter, {sum}, {{"replicas", replicas_}}, sum);
      graph_.replaceUses({{op.out(), part}});
      graph_.remove(std::array{id});
    }
  }

  /// A new op in front of `position`, in the place of what makes `of`.
  Value insert(
      OpId position, const ir::OpDef& def, std::vector<Value> inputs, ir::Attrs attrs, Value of) {
    const Op& like = graph_.op(of.op);
    ir::NewOp made{.def = def,
                   .inputs = std::move(inputs),
                   .attrs = std::move(attrs),
                   .name = like.name,
                   .place = like.place};
    made.place.pass = ir::Pass::Update;
    return {graph_.insertBefore(position, std::move(made)), 0};
  }

  ir::Graph& graph_;
  std::int64_t replicas_ = 0;
  std::unordered_set<Value> partial_;
  std::unordered_map<Value, Value> parts_;
};

}  // namespace

bool shardUpdates(ir::Graph& graph) {
  return Sharder(graph).run();
}

}  // namespace sluice::transforms
