// Chains of blocks, and programs lowered from them step by step, for tests of placement, rounds,
// the virtual clock and the verifier with several devices.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/device/kernel_table.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/placement.h"
#include "sluice/parallel/segments.h"
#include "sluice/program/lower.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::testing {

struct ChainOptions {
  std::int32_t blocks = 2;
  bool training = true;
  bool skip = false;     ///< the last block also reads the result of the first
  bool tied = false;     ///< the last block uses the weight of the first
  bool clipped = false;  ///< gradients are scaled by their common norm
  bool dropout = false;  ///< drops half of each block's result
};

/// y = tanh(y w_i) in block "b<i>" for each i, from an input "x" [4, 6]. For training it has mean
/// squared error against an input "target", accumulators "g.w<i>" and a plain update.
ir::Graph chainModel(const ChainOptions& options);

struct ChainRun {
  std::vector<std::int32_t> deviceOfStage;  ///< block i is stage i
  std::int32_t microBatches = 1;
  schedule::PipelineKind kind = schedule::PipelineKind::OneForwardOneBackward;
  std::vector<schedule::StageCost> costs = {};
  std::int32_t lookahead = 1;
};

/// A graph that was placed, cut, scheduled and lowered.
struct Chain {
  ir::Graph graph;
  parallel::VariableHomes homes;
  parallel::SegmentPlan segments;
  schedule::PipelineSchedule schedule;
  program::StatePlan state;
  program::Program program;
};
Chain lowerChain(const ir::Graph& graph, const ChainRun& run, std::vector<program::Target> targets);

}  // namespace sluice::testing
