// Segments: the ops of a placed graph, grouped into what runs as one piece on one device. The cut
// follows stage and pass; what crosses it is stashed or sent, counted on the cut graph.
#pragma once

#include <cstdint>
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
  std::int32_t stage = 0;  ///< 0 for Pack and Update
  std::int32_t part = 0;   ///< Update: how many exchanges between devices come before it

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

/// Cuts a graph whose every op has a stage and a device (see placement.h).
SegmentPlan cutSegments(const ir::Graph& graph, bool splitBackward);

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
