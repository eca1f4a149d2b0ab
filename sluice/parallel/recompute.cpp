#include "sluice/parallel/recompute.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sluice/ops/fused.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/parallel/leaf.h"
#include "sluice/parallel/op_replacer.h"

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;
using ir::Pass;
using ir::Value;

bool isNormalization(const Op& op) {
  return op.def->name.ends_with("_norm") || op.def->name.ends_with("_normalization");
}

/// The points of one stage at which everything that crosses them is kept, so that what is kept and
/// the largest part between two points, which is made again at a time, are least together.
class CheckpointSearch {
 public:
  CheckpointSearch(const ir::Graph& graph, const std::vector<OpId>& ops) : ops_(ops) {
    std::unordered_map<OpId, std::size_t> position;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      position.emplace(ops[i], i);
      std::size_t bytes = 0;
      for (const TensorType& type : graph.op(ops[i]).outputs) {
        bytes += type.bytes();
      }
      bytes_.push_back(bytes);
    }
    lastUse_.resize(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      lastUse_[i] = i;
      for (const Value v : graph.op(ops[i]).inputs) {
        if (const auto made = position.find(v.op); made != position.end()) {
          lastUse_[made->second] = i;
        }
      }
    }
  }

  /// The ops whose results are kept.
  std::vector<OpId> run() const {
    std::vector<std::size_t> best;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    constexpr std::size_t kMostParts = 64;
    for (std::size_t parts = 1; parts <= std::min(ops_.size(), kMostParts); ++parts) {
      const std::vector<std::size_t> points = pointsFor(parts);
      const std::size_t cost = costOf(points);
      if (cost < least) {
        least = cost;
        best = points;
      }
    }
    std::vector<OpId> kept;
    for (const std::size_t i : crossing(best)) {
      kept.push_back(ops_[i]);
    }
    return kept;
  }

 private:
  std::size_t total() const {
    std::size_t sum = 0;
    for (const std::size_t bytes : bytes_) {
      sum += bytes;
    }
    return sum;
  }

  /// Points behind ops that cut the stage into parts of about equal bytes.
  std::vector<std::size_t> pointsFor(std::size_t parts) const {
    std::vector<std::size_t> points;
    const std::size_t all = total();
    std::size_t sum = 0;
    for (std::size_t i = 0; i + 1 < ops_.size(); ++i) {
      sum += bytes_[i];
      if (sum * parts >= all * (points.size() + 1) && points.size() + 1 < parts) {
        points.push_back(i);
      }
    }
    return points;
  }

  std::vector<std::size_t> crossing(const std::vector<std::size_t>& points) const {
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (std::ranges::any_of(
              points, [&](std::size_t point) { return i <= point && lastUse_[i] > point; })) {
        kept.push_back(i);
      }
    }
    return kept;
  }

  std::size_t costOf(const std::vector<std::size_t>& points) const {
    std::size_t kept = 0;
    for (const std::size_t i : crossing(points)) {
      kept += bytes_[i];
    }
    std::size_t largest = 0;
    std::size_t part = 0;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      part += bytes_[i];
      if (i + 1 == ops_.size() || std::ranges::find(points, i) != points.end()) {
        largest = std::max(largest, part);
        part = 0;
      }
    }
    return kept + largest;
  }

  const std::vector<OpId>& ops_;
  std::vector<std::size_t> bytes_;    // of the results, by position
  std::vector<std::size_t> lastUse_;  // in the forward pass, by position
};

class Recomputer {
 public:
  Recomputer(ir::Graph& graph, RecomputeRule rule, std::int32_t last)
      : graph_(graph), rule_(rule), last_(last) {
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
    if (rule == RecomputeRule::NormOnly) {
      findNormalizations();
    } else if (rule == RecomputeRule::Standard) {
      keepCheckpoints();
    }
  }

  std::unordered_set<OpId> run() {
    const std::vector<OpId> before(graph_.order().begin(), graph_.order().end());
    for (const OpId id : before) {
      const Op& op = graph_.op(id);
      std::vector<Value> inputs = op.inputs;
      const bool recomputed = rule_ != RecomputeRule::Pipeline || op.place.stage < last_;
      if (op.place.pass == Pass::Backward && recomputed) {
        for (Value& v : inputs) {
          v = again(v, op);
        }
      }
      replacer_.replace(op, std::move(inputs));
    }
    replacer_.finish();
    std::unordered_set<OpId> repeated;
    for (const auto& [id, clone] : clones_) {
      repeated.insert(id);
    }
    return repeated;
  }

 private:
  void findNormalizations() {
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.place.pass != Pass::Forward || isLeaf(op)) {
        continue;
      }
      const auto repeated = [&](const Value v) {
        return isLeaf(graph_.op(v.op)) || norms_.contains(v.op);
      };
      const bool behind =
          ops::isElementwise(op) && std::ranges::all_of(op.inputs, repeated) &&
          std::ranges::any_of(op.inputs, [&](const Value v) { return norms_.contains(v.op); });
      if (isNormalization(op) || behind) {
        norms_.insert(id);
      }
    }
  }

  void keepCheckpoints() {
    std::map<std::int32_t, std::vector<OpId>> stages;
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      if (op.place.pass == Pass::Forward && !isLeaf(op)) {
        stages[op.place.stage].push_back(id);
      }
    }
    for (const auto& [stage, ops] : stages) {
      for (const OpId id : CheckpointSearch(graph_, ops).run()) {
        kept_.insert(id);
      }
    }
  }

  /// A weight that replicas keep in parts: the backward pass gathers it again.
  bool isGatheredVariable(const Op& op) const {
    return op.is(ops::kReplicaGather) && graph_.op(op.inputs[0].op).is(ir::kVariable);
  }

  /// Whether the op is repeated in the backward pass of its stage.
  bool repeats(const Op& op) const {
    const bool repeatable =
        isGatheredVariable(op) || (!op.def->traits.effect && !op.def->traits.once);
    return !isLeaf(op) && op.place.pass == Pass::Forward && repeatable && !kept_.contains(op.id) &&
           (rule_ != RecomputeRule::NormOnly || norms_.contains(op.id));
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
  RecomputeRule rule_;
  std::int32_t last_;
  std::unordered_set<OpId> kept_;
  std::unordered_set<OpId> norms_;  // and what is element-wise behind them
  std::unordered_map<OpId, OpId> clones_;
  OpReplacer replacer_{graph_};
};

}  // namespace

std::unordered_set<ir::OpId> recomputeActivations(ir::Graph& graph,
                                                  RecomputeRule rule,
                                                  std::int32_t last) {
  return Recomputer(graph, rule, last).run();
}

}  // namespace sluice::parallel
