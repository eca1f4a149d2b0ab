// Lowering turns a finished graph into a Program, in two halves. The first half chooses kernels and
// storage layouts and inserts storage changes. The second half turns the order of a round into
// tasks and gives every value a planned slice of memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/placement.h"
#include "sluice/parallel/segments.h"
#include "sluice/parallel/streaming.h"
#include "sluice/program/overlap.h"
#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::program {

/// What lowering has to know about a device.
struct Target {
  const device::KernelTable* kernels = nullptr;  ///< never null
  std::size_t alignment = kAlignment;
  std::size_t ownBytes = 0;  ///< the part of its memory that the kind takes for itself
  bool staged = false;       ///< the host's data goes through pinned memory
};
Target targetOf(const device::Device& device);

struct LowerOptions {
  std::int32_t microBatchesPerRound = 1;
  std::int32_t lookahead = 1;       ///< micro-batches by which other lanes may lead the kernels
  bool sequential = false;          ///< one micro-batch at a time over all devices
  DrainRule drainRule = {};         ///< for outputs without a rule of their own
  std::size_t memoryPerDevice = 0;  ///< 0: not limited
  bool packsInLoop = false;         ///< the storage of variables is changed for each micro-batch
  /// If the program writes no variable, its packed copies of variables stay from step to step.
  bool keepsPacked = false;
  std::vector<DrainRule> drainRules = {};              ///< by output; empty: drainRule for all
  OverlapPlan overlap = {};                            ///< overlap of the host's data with kernels
  std::optional<schedule::SyncPattern> barriers = {};  ///< if set, devices meet before exchanges
  std::vector<Target> targets = {};  ///< by device, at least one; the last is for all others
  bool remoteInFile = false;         ///< remote memory is a file

  const Target& target(std::int32_t device) const {
    return targets[std::min(static_cast<std::size_t>(device), targets.size() - 1)];
  }
};

/// The schedule of a graph that is entirely on device 0: forward and backward for each micro-batch.
schedule::PipelineSchedule oneDeviceSchedule(std::int32_t microBatches, bool training);

/// Where the parts of a placed graph run, and in which order.
struct Placed {
  const ir::Graph& graph;
  const parallel::SegmentPlan& segments;
  const parallel::VariableHomes& homes;
  const schedule::PipelineSchedule& schedule;
  parallel::Streaming streaming = {};
};

struct Emitted;

/// Kernels on buffers that have no offsets yet.
struct Unplaced {
  std::shared_ptr<Emitted> emitted;  // defined only inside the program module
  StatePlan state;                   ///< includes the variables of the graph
};

/// Throws Unsupported for an op without a kernel and InvalidArgument for a graph that cannot run in
/// a loop of rounds.
Unplaced emitKernels(const Placed& placed, StatePlan state, const LowerOptions& options);
/// Throws OutOfMemory (naming device, need, limit and the largest buffers at the peak) if the plan
/// exceeds the budget. Consumes the emitted kernels.
Program planMemory(const Placed& placed, const Unplaced& unplaced, const LowerOptions& options);

/// Does both. Adds the graph's variables to `state`, which is unchanged if this throws.
Program lower(const Placed& placed, StatePlan& state, const LowerOptions& options);

/// Places everything on device 0 and lowers it.
Program lower(ir::Graph graph, StatePlan& state, const LowerOptions& options);

}  // namespace sluice::program
