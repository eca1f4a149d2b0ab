// Segments: the ops of a placed graph, grouped into what runs as one piece on one device. The cut
// follows stage and pass; what crosses it is stashed or sent, counted on the cut graph.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// Backward is BackwardInput and BackwardWeight in one piece. BackwardInput is what another stage's
/// backward waits for; BackwardWeight is the rest and may be delayed.
enum class SegmentKind : std::uint8_t {
  Pack,  ///< storage changes of variables, once per round
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Update
};
std::string_view name(SegmentKind kind);

struct SegmentInfo {
  SegmentKind kind = SegmentKind::Forward;
  std::int32_t device = 0;
  std::int32_t stage = 0;  ///< 0 for Pack and Update outside of the loop
  /// Update: how many exchanges between devices or replicas come before it; Forward and Backward:
  /// how many between replicas, of a micro-batch.
  std::int32_t part = 0;
  /// Update: the variables it works for, when it is cut so that their state can stream; -1: all.
  std::int32_t bucket = -1;
  /// Pack and Update of a phase: right before the first, right behind the last of its micro-batches
  /// instead of before and behind those of all phases.
  bool inLoop = false;

  bool oncePerRound() const { return kind == SegmentKind::Pack || kind == SegmentKind::Update; }
  bool operator==(const SegmentInfo&) const = default;
};

struct SegmentPlan {
  /// In an order in which data of one micro-batch flows: forward by stage, backward by falling
  /// stage, the parts of the update.
  std::vector<SegmentInfo> segments;
  std::vector<std::int32_t> segmentOfOp;  ///< by OpId
  std::vector<std::int32_t> deviceOfStage;
  std::int32_t devices = 1;  ///< device ids are below this

  std::int32_t of(ir::OpId op) const { return segmentOfOp[op.index()]; }
};

/// How the once-per-round work is cut, beside the loop.
struct CutOptions {
  bool splitBackward = false;
  /// Stages are phases that run all their micro-batches in one go: each packs its variables before
  /// and, where it depends on no other phase, updates them behind its backward pass.
  bool phases = false;
  /// The update, or that of a phase, is one piece.
  bool wholeUpdates = false;
  /// The update is cut into buckets by the variables it works for; those named here count.
  const std::set<std::string, std::less<>>* streamed = nullptr;
};

/// Cuts a graph whose every op has a stage and a device (see placement.h).
SegmentPlan cutSegments(const ir::Graph& graph, const CutOptions& options);

/// Work of one stage for one micro-batch in nanoseconds of a nominal device: what schedules
/// compare. Kinds that the stage does not have cost nothing.
struct StageWork {
  std::int64_t forward = 0;
  std::int64_t backwardInput = 0;
  std::int64_t backwardWeight = 0;
  std::int64_t stashBytes = 0;  ///< made by the forward and read by the backward
};
std::vector<StageWork> estimateWork(const ir::Graph& graph, const SegmentPlan& plan);

}  // namespace sluice::parallel
