#include "sluice/transforms/shard_weights.h"

#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/replace_op.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

class WeightSharder {
 public:
  WeightSharder(ir::Graph& graph, std::int32_t replicas) : graph_(graph), replicas_(replicas) {}

  void run(const std::set<std::string, std::less<>>& weights) {
    for (const std::string& weight : weights) {
      ir::Variable part = *graph_.findVariable(weight);
      if (part.split) {
        continue;
      }
      wholes_.emplace(weight, part.type.shape);
      part.split = {part.type.shape, replicas_};
      part.type.shape = Shape{ir::partOf(part.type.shape.elements(), replicas_)};
      graph_.replaceVariable(std::move(part));
    }
    const std::vector<OpId> before(graph_.order().begin(), graph_.order().end());
    for (const OpId id : before) {
      const Op& op = graph_.op(id);
      const bool touches =
          (op.is(ir::kVariable) || op.is(ir::kAssign)) && wholes_.contains(op.attrs.text("var"));
      if (touches && op.is(ir::kVariable)) {
        reads_.push_back(id);
        read_.emplace(op.out(), id);
      } else if (touches) {
        assignPart(op);
      } else {
        readGathered(op);
      }
    }
    returnGathered();
    graph_.remove(reads_);
  }

 private:
  /// What the graph itself returns.
  void returnGathered() {
    std::unordered_map<Value, Value> returned;
    for (const ir::Output& output : graph_.outputs()) {
      if (const auto read = read_.find(output.value); read != read_.end()) {
        returned.emplace(output.value, gathered(read->second, read->second));
      }
    }
    graph_.replaceUses(returned);
  }

  void readGathered(const Op& op) {
    std::vector<Value> inputs = op.inputs;
    for (Value& v : inputs) {
      if (const auto read = read_.find(v); read != read_.end()) {
        v = gathered(read->second, op.id);
      }
    }
    if (inputs != op.inputs) {
      replaceOperands(graph_, op, std::move(inputs));
    }
  }

  void assignPart(const Op& op) {
    Value value = op.inputs[0];
    if (const auto read = read_.find(value); read != read_.end()) {
      value = gathered(read->second, op.id);
    }
    const OpId part = graph_.insertBefore(op.id,
                                          {.def = ops::kReplicaScatter,
                                           .inputs = {value},
                                           .attrs = {{"replicas", replicas_}},
                                           .name = op.name,
                                           .place = op.place});
    replaceOperands(graph_, op, {{part, 0}});
  }

  /// The whole weight of a read, in the pass and block of `user`; it is made in front of the first
  /// one there.
  Value gathered(OpId read, OpId user) {
    const Op& reader = graph_.op(user);
    const auto [known, isNew] =
        gathered_.emplace(std::tuple(read.value, reader.place.pass, reader.place.block), Value{});
    if (isNew) {
      const Op& variable = graph_.op(read);
      const std::string& name = variable.attrs.text("var");
      const std::span<const std::int64_t> dims = wholes_.at(name).dims();
      const OpId part = graph_.insertBefore(user,
                                            {.def = ir::kVariable,
                                             .attrs = variable.attrs,
                                             .name = variable.name,
                                             .place = reader.place,
                                             .types = {graph_.findVariable(name)->type}});
      const OpId whole = graph_.insertBefore(
          user,
          {.def = ops::kReplicaGather,
           .inputs = {{part, 0}},
           .attrs = {{"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                     {"replicas", replicas_}},
           .name = variable.name,
           .place = reader.place});
      known->second = {whole, 0};
    }
    return known->second;
  }

  ir::Graph& graph_;
  std::int32_t replicas_;
  std::map<std::string, Shape, std::less<>> wholes_;
  std::vector<OpId> reads_;
  std::unordered_map<Value, OpId> read_;  // of a whole weight, by result
  std::map<std::tuple<std::int32_t, ir::Pass, std::int32_t>, Value> gathered_;
};

}  // namespace

void shardWeights(ir::Graph& graph,
                  const std::set<std::string, std::less<>>& weights,
                  std::int32_t replicas) {
  if (!weights.empty()) {
    WeightSharder(graph, replicas).run(weights);
  }
}

}  // namespace sluice::transforms
