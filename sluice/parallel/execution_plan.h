// ExecutionPlan: what a strategy makes of a finished graph: every op placed, the graph cut into
// segments, and an order for them on every device. Lowering turns it into a Program. The steps that
// make one stand here; continuous.h and relay.h have two more that change the placed graph.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/parallel/placement.h"
#include "sluice/parallel/segments.h"
#include "sluice/parallel/strategy.h"
#include "sluice/parallel/streaming.h"
#include "sluice/parallel/tensor_locations.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::parallel {

struct ExecutionPlan {
  SegmentPlan segments;
  VariableHomes homes;
  schedule::PipelineSchedule schedule;
  bool sequential = false;      ///< one micro-batch at a time over all devices
  bool pipelined = false;       ///< by a pipelined strategy over more than one device
  bool training = false;        ///< there is a backward pass
  bool recomputed = false;      ///< activations are made again in the backward pass
  std::vector<StageWork> work;  ///< by stage
  std::vector<std::vector<std::string>> blocks;  ///< by stage
  std::vector<std::int32_t> slotOfStage;         ///< concurrent stages have the same
  std::vector<std::int32_t> phaseOfStage;        ///< of phased execution
  Streaming streaming;
  /// Marked with a place of their own, but made again in the backward pass.
  std::vector<std::string> ignoredLocations;
};

/// Whether activations are made again in the backward pass, and which (see recompute.h).
enum class Recompute : std::uint8_t { No, Pipeline, IfPipelined, All, NormOnly, Standard };

struct PlanOptions {
  std::int32_t microBatches = 1;
  Recompute recompute = Recompute::No;
  bool continuous = false;  ///< update weights without draining the pipeline (see continuous.h)
  bool annotated = false;   ///< ops carry stages and devices themselves; there are no blocks
  LocationPlan locations = {};
  StreamOrder phaseOrder = StreamOrder::PhaseMajor;  ///< of phased execution
  bool overlap = true;                               ///< phases load ahead, at the price of memory
  PhaseSchedule phaseSchedule = PhaseSchedule::Batch;  ///< of phased execution; not Automatic
};

/// What the steps of planning hand on, from placing the ops to the order of a round. They are to be
/// called in this order; compile/stages.cpp is who does.
struct PlanDraft {
  Strategy strategy;
  PlanOptions options;
  ExecutionPlan plan = {};
  std::vector<std::int32_t> deviceOfStage = {};
  PipelineKind schedule = PipelineKind::Sequential;
  std::unordered_set<ir::OpId> recomputed = {};  ///< forward ops that the backward pass repeats
};

/// Gives every op of `graph` its stage and device. `plan.homes` names the variables that other
/// programs of the model have placed. Throws InvalidArgument for a strategy that does not fit the
/// graph.
void placeOps(ir::Graph& graph, PlanDraft& draft);
/// With recomputation: repeats forward ops in the backward pass (see recompute.h).
void recompute(ir::Graph& graph, PlanDraft& draft);
/// Decides what is in remote memory, and for how long devices hold copies.
void planStreaming(const ir::Graph& graph, PlanDraft& draft);
/// Cuts the graph into segments and estimates their work.
void cutStages(const ir::Graph& graph, PlanDraft& draft);
/// Finds the order of a round on every device.
void scheduleRound(PlanDraft& draft);

}  // namespace sluice::parallel
