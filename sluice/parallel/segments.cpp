#include "sluice/parallel/segments.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/parallel/update_buckets.h"
#include "sluice/parallel/work.h"

namespace sluice::parallel {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

/// Finds the segment of every op; segments get their final order at the end.
class Cutter {
 public:
  Cutter(const ir::Graph& graph, const CutOptions& options)
      : graph_(graph), options_(options), split_(options.splitBackward) {
    for (const OpId id : graph.order()) {
      size_ = std::max(size_, id.index() + 1);
    }
  }

  SegmentPlan run() {
    plan_.segmentOfOp.assign(size_, -1);
    buckets_ = cutUpdate(graph_, options_);
    if (split_) {
      findInputGradients();
    }
    findParts();
    std::map<Key, SegmentInfo> segments;
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      const SegmentInfo info = infoOf(op);
      segments.emplace(keyOf(info), info);
      if (options_.phases && op.place.pass != ir::Pass::Update) {
        const SegmentInfo pack = packBefore(info);
        segments.emplace(keyOf(pack), pack);
      }
      plan_.devices = std::max(plan_.devices, op.place.device + 1);
      const auto stage = static_cast<std::size_t>(op.place.stage);
      if (op.place.pass != ir::Pass::Update) {
        if (stage >= plan_.deviceOfStage.size()) {
          plan_.deviceOfStage.resize(stage + 1, 0);
        }
        plan_.deviceOfStage[stage] = op.place.device;
      }
    }
    std::map<Key, std::int32_t> index;
    for (const auto& [key, info] : segments) {
      index.emplace(key, static_cast<std::int32_t>(plan_.segments.size()));
      plan_.segments.push_back(info);
    }
    for (const OpId id : graph_.order()) {
      plan_.segmentOfOp[id.index()] = index.at(keyOf(infoOf(graph_.op(id))));
    }
    return std::move(plan_);
  }

 private:
  using Key = std::tuple<int, std::int32_t, int, std::int32_t, std::int32_t>;

  static Key keyOf(const SegmentInfo& info) {
    switch (info.kind) {
      case SegmentKind::Pack:
        return info.part == 0 ? Key{1, info.stage, 0, 0, 0} : Key{2, -info.stage, 0, 0, 0};
      case SegmentKind::Forward:
        return {1, info.stage, 1, info.part, 0};
      case SegmentKind::Backward:
      case SegmentKind::BackwardInput:
        return {2, -info.stage, 1, info.part, 0};
      case SegmentKind::BackwardWeight:
        return {2, -info.stage, 2, info.part, 0};
      case SegmentKind::Update:
        break;
    }
    if (!info.inLoop) {
      return {3, info.part, info.bucket, info.device, 0};
    }
    // What serves all phases runs first of all, by its exchanges between devices.
    return info.bucket < 0 ? Key{0, info.part, 0, info.device, 0}
                           : Key{2, -info.stage, 3, info.bucket, info.part};
  }

  /// Under phases, what packs the variables of a pass.
  static SegmentInfo packBefore(const SegmentInfo& info) {
    return {.kind = SegmentKind::Pack,
            .device = info.device,
            .stage = info.stage,
            .part = info.kind == SegmentKind::Forward ? 0 : 1,
            .inLoop = true};
  }

  SegmentInfo infoOf(const Op& op) const {
    if (op.place.pass != ir::Pass::Update) {
      return {.kind = op.place.pass == ir::Pass::Forward ? SegmentKind::Forward : backwardKind(op),
              .device = op.place.device,
              .stage = op.place.stage,
              .part = part_[op.id.index()]};
    }
    const std::int32_t bucket = buckets_.bucket[op.id.index()];
    const bool inLoop = buckets_.inLoop[op.id.index()];
    return {.kind = SegmentKind::Update,
            .device = op.place.device,
            .stage = inLoop && bucket >= 0 ? buckets_.stage[static_cast<std::size_t>(bucket)] : 0,
            .part = part_[op.id.index()],
            .bucket = bucket,
            .inLoop = inLoop};
  }

  SegmentKind backwardKind(const Op& op) const {
    if (!split_) {
      return SegmentKind::Backward;
    }
    return forOtherStage_[op.id.index()] ? SegmentKind::BackwardInput : SegmentKind::BackwardWeight;
  }

  /// An op belongs behind every exchange inside its own segment that its operands came through, and
  /// behind the reads and writes of its variable there.
  void findParts() {
    part_.assign(size_, 0);
    std::map<std::tuple<SegmentKind, std::int32_t, std::string>, std::int32_t> lastAccess;
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      std::int32_t& part = part_[id.index()];
      for (const Value v : op.inputs) {
        const Op& producer = graph_.op(v.op);
        if (!producer.is(ir::kConstant) && wholeOf(producer) == wholeOf(op)) {
          part = std::max(part, part_[v.op.index()] + (areApart(producer, op) ? 1 : 0));
        }
      }
      if (op.is(ir::kVariable) || op.is(ir::kAssign)) {
        const auto [kind, stage] = wholeOf(op);
        std::int32_t& last = lastAccess[{kind, stage, op.attrs.text("var")}];
        part = std::max(part, last);
        last = part;
      }
    }
  }

  /// What is cut into parts: the update, or a pass of a stage.
  std::pair<SegmentKind, std::int32_t> wholeOf(const Op& op) const {
    switch (op.place.pass) {
      case ir::Pass::Forward:
        return {SegmentKind::Forward, op.place.stage};
      case ir::Pass::Backward:
        return {backwardKind(op), op.place.stage};
      case ir::Pass::Update:
        break;
    }
    return {SegmentKind::Update, 0};
  }

  /// Whether an op has to wait for the part after that of what it reads: there is an exchange
  /// between them or, in the update, the bucket of its operand comes behind its own.
  bool areApart(const Op& producer, const Op& op) const {
    const std::size_t p = producer.id.index();
    const std::size_t o = op.id.index();
    const bool behind = op.place.pass == ir::Pass::Update && !buckets_.inLoop[p] &&
                        buckets_.bucket[p] > buckets_.bucket[o];
    return producer.place.device != op.place.device || ops::crossesReplicas(*producer.def) ||
           behind;
  }

  /// Backward ops from which another stage's backward is reached.
  void findInputGradients() {
    forOtherStage_.assign(size_, false);
    const auto order = graph_.order();
    for (std::size_t i = order.size(); i-- > 0;) {
      const Op& op = graph_.op(order[i]);
      if (op.place.pass != ir::Pass::Backward) {
        continue;
      }
      for (const Value v : op.inputs) {
        const Op& producer = graph_.op(v.op);
        if (producer.place.pass == ir::Pass::Backward &&
            (producer.place.stage != op.place.stage || forOtherStage_[op.id.index()])) {
          forOtherStage_[v.op.index()] = true;
        }
      }
    }
  }

  const ir::Graph& graph_;
  const CutOptions& options_;
  bool split_;
  std::size_t size_ = 0;
  UpdateBuckets buckets_;
  std::vector<std::int32_t> part_;
  std::vector<bool> forOtherStage_;
  SegmentPlan plan_;
};

}  // namespace

std::string_view name(SegmentKind kind) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "pack", "forward", "backward", "backward_input", "backward_weight", "update"};
  return kNames[static_cast<std::size_t>(kind)];
}

SegmentPlan cutSegments(const ir::Graph& graph, const CutOptions& options) {
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    SLUICE_CHECK(op.place.device >= 0 && op.place.stage >= 0,
                 "op '{}' has stage {} and device {}: the graph is not placed",
                 op.name,
                 op.place.stage,
                 op.place.device);
  }
  return Cutter(graph, options).run();
}

std::vector<StageWork> estimateWork(const ir::Graph& graph, const SegmentPlan& plan) {
  std::vector<StageWork> work(plan.deviceOfStage.size());
  std::vector<bool> stashed(plan.segmentOfOp.size(), false);
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    const SegmentInfo& info = plan.segments[static_cast<std::size_t>(plan.of(id))];
    StageWork& stage = work[static_cast<std::size_t>(info.stage)];
    switch (info.kind) {
      case SegmentKind::Forward:
        stage.forward += nanoseconds(graph, op);
        break;
      case SegmentKind::Backward:
      case SegmentKind::BackwardInput:
        stage.backwardInput += nanoseconds(graph, op);
        break;
      case SegmentKind::BackwardWeight:
        stage.backwardWeight += nanoseconds(graph, op);
        break;
      case SegmentKind::Pack:
      case SegmentKind::Update:
        continue;
    }
    for (const Value v : op.inputs) {
      const Op& producer = graph.op(v.op);
      if (info.kind != SegmentKind::Forward && producer.place.pass == ir::Pass::Forward &&
          !producer.is(ir::kVariable) && !producer.is(ir::kConstant) && !stashed[v.op.index()]) {
        stashed[v.op.index()] = true;
        stage.stashBytes += static_cast<std::int64_t>(graph.type(v).bytes());
      }
    }
  }
  return work;
}

}  // namespace sluice::parallel
