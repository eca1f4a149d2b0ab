// ExecutionPlan: the result of applying a strategy to a finished graph. Every op is placed, the
// graph is cut into segments, and every device has an order for them. Lowering turns the plan into
// a Program. The steps that make a plan are declared here; continuous.h and relay.h have two more
// that change the placed graph.
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
#include "sluice/schedule/pipeline.h"

namespace sluice::parallel {

struct ExecutionPlan {
  SegmentPlan segments;
  VariableHomes homes;
  schedule::PipelineSchedule schedule;
  bool sequential = false;                       ///< one micro-batch at a time over all devices
  bool pipelined = false;                        ///< a pipelined strategy with more than one device
  bool training = false;                         ///< there is a backward pass
  bool recomputed = false;                       ///< the backward pass recomputes activations
  std::vector<StageWork> work;                   ///< by stage
  std::vector<std::vector<std::string>> blocks;  ///< by stage
  std::vector<std::int32_t> slotOfStage;         ///< equal for concurrent stages
  std::vector<std::int32_t> phaseOfStage;        ///< only for phased execution
  Streaming streaming;
  /// Values with a location of their own that the backward pass recomputes instead.
  std::vector<std::string> ignoredLocations;
};

/// Whether the backward pass recomputes activations, and which ones (see recompute.h).
enum class Recompute : std::uint8_t { No, Pipeline, IfPipelined, All, NormOnly, Standard };

struct PlanOptions {
  std::int32_t microBatches = 1;
  Recompute recompute = Recompute::No;
  bool continuous = false;  ///< update weights without draining the pipeline (see continuous.h)
  bool annotated = false;   ///< ops have stages and devices themselves; there are no blocks
  LocationPlan locations = {};
  StreamOrder phaseOrder = StreamOrder::PhaseMajor;  ///< only for phased execution
  bool overlap = true;                               ///< phases load ahead, which takes more memory
  PhaseSchedule phaseSchedule = PhaseSchedule::Batch;  ///< only for phased execution; not Automatic
};

/// The data that the steps of planning pass on, from placing the ops to the order of a round.
/// compile/stages.cpp calls the steps in the order in which they are declared here.
struct PlanDraft {
  Strategy strategy;
  PlanOptions options;
  ExecutionPlan plan = {};
  std::vector<std::int32_t> deviceOfStage = {};
  PipelineKind schedule = PipelineKind::Sequential;
  std::unordered_set<ir::OpId> recomputed = {};  ///< forward ops that the backward pass repeats
};

/// Gives every op of `graph` its stage and device. `plan.homes` names the variables that other
/// programs of the model have placed. Throws InvalidArgument if the strategy does not fit the
/// graph.
void placeOps(ir::Graph& graph, PlanDraft& draft);
/// If requested, repeats forward ops in the backward pass (see recompute.h).
void recompute(ir::Graph& graph, PlanDraft& draft);
/// Decides what is kept in remote memory and how long devices hold copies.
void planStreaming(const ir::Graph& graph, PlanDraft& draft);
/// Cuts the graph into segments and estimates their work.
void cutStages(const ir::Graph& graph, PlanDraft& draft);
/// Finds the order of a round on every device.
void scheduleRound(PlanDraft& draft);

}  // namespace sluice::parallel
