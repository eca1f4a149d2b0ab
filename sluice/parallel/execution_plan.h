// ExecutionPlan: what a strategy makes of a finished graph: every op placed, the graph cut into
// segments, and an order for them on every device. Lowering turns it into a Program.
#pragma once

#include <cstdint>
#include <string>
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

/// Places the ops of `graph` and plans a round of micro-batches. `homes` names the variables that
/// other programs of the model have placed. Throws InvalidArgument for a strategy that does not fit
/// the graph.
ExecutionPlan planExecution(ir::Graph& graph,
                            const Strategy& strategy,
                            const PlanOptions& options,
                            VariableHomes homes);

}  // namespace sluice::parallel
