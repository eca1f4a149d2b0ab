// Segments: the ops of a placed graph, grouped into pieces that each run as a unit on one device.
// The cut follows stage and pass. A value that crosses it is stashed or sent.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// Backward is BackwardInput and BackwardWeight in one piece. The backward pass of another stage
/// waits for BackwardInput; BackwardWeight is the rest and may be delayed.
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
  /// Update: how many exchanges between devices or replicas come before it. Forward and Backward:
  /// how many exchanges between replicas in the same micro-batch come before it.
  std::int32_t part = 0;
  /// Update: its bucket of variables, if the update is cut so that state can stream; -1: all.
  std::int32_t bucket = -1;
  /// For Pack and Update of a phase: they run directly before the first and after the last
  /// micro-batch of their phase, not before and after those of all phases.
  bool inLoop = false;

  bool oncePerRound() const { return kind == SegmentKind::Pack || kind == SegmentKind::Update; }
  bool operator==(const SegmentInfo&) const = default;
};

struct SegmentPlan {
  /// In an order in which the data of one micro-batch flows: forward by ascending stage, backward
  /// by descending stage, then the parts of the update.
  std::vector<SegmentInfo> segments;
  std::vector<std::int32_t> segmentOfOp;  ///< by OpId
  std::vector<std::int32_t> deviceOfStage;
  std::int32_t devices = 1;  ///< device ids are below this

  std::int32_t of(ir::OpId op) const { return segmentOfOp[op.index()]; }
};

/// How the work outside of the loop, once per round, is cut.
struct CutOptions {
  bool splitBackward = false;
  /// Stages are phases that run all their micro-batches without a break. Each packs its variables
  /// before its micro-batches and updates them after its backward pass, if it depends on no other
  /// phase.
  bool phases = false;
  /// The update, or that of a phase, is one piece.
  bool wholeUpdates = false;
  /// The update is cut into buckets by the variables that it updates; only those named here count.
  const std::set<std::string, std::less<>>* streamed = nullptr;
};

/// Cuts a graph whose every op has a stage and a device (see placement.h).
SegmentPlan cutSegments(const ir::Graph& graph, const CutOptions& options);

/// The work of one stage for one micro-batch in nanoseconds of a nominal device; schedules compare
/// it. Kinds of segments that the stage does not have cost nothing.
struct StageWork {
  std::int64_t forward = 0;
  std::int64_t backwardInput = 0;
  std::int64_t backwardWeight = 0;
  std::int64_t stashBytes = 0;  ///< made by the forward pass and read by the backward pass
};
std::vector<StageWork> estimateWork(const ir::Graph& graph, const SegmentPlan& plan);

}  // namespace sluice::parallel
