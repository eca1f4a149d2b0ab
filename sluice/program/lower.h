// Lowering: a finished graph becomes a Program, in two halves. Kernels and storage layouts are
// chosen and storage changes inserted; then the order of a round is laid out as tasks, and values
// are given planned slices.
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

/// What lowering has to know of a device.
struct Target {
  const device::KernelTable* kernels = nullptr;  ///< never null
  std::size_t alignment = kAlignment;
  std::size_t ownBytes = 0;  ///< of its memory, what the kind takes for itself
  bool staged = false;       ///< the host's data goes through pinned memory
};
Target targetOf(const device::Device& device);

struct LowerOptions {
  std::int32_t microBatchesPerRound = 1;
  std::int32_t lookahead = 1;       ///< micro-batches that other lanes may be ahead of the kernels
  bool sequential = false;          ///< one micro-batch at a time over all devices
  DrainRule drainRule = {};         ///< for outputs without one of their own
  std::size_t memoryPerDevice = 0;  ///< 0: not limited
  bool packsInLoop = false;         ///< the storage of variables is changed for each micro-batch
  std::vector<DrainRule> drainRules = {};              ///< by output; empty: drainRule for all
  OverlapPlan overlap = {};                            ///< of the host's data with kernels
  std::optional<schedule::SyncPattern> barriers = {};  ///< set: devices meet before they exchange
  std::vector<Target> targets = {};  ///< by device, at least one; the last holds for all others
  bool remoteInFile = false;         ///< remote memory is no memory, but a file

  const Target& target(std::int32_t device) const {
    return targets[std::min(static_cast<std::size_t>(device), targets.size() - 1)];
  }
};

/// The schedule of a graph that is all on device 0: each micro-batch forward and backward.
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

/// Kernels over buffers that have no places yet.
struct Unplaced {
  std::shared_ptr<Emitted> emitted;  // known to the program module alone
  StatePlan state;                   ///< with the variables of the graph
};

/// Throws Unsupported for an op without a kernel, InvalidArgument for a graph that cannot be run in
/// rounds.
Unplaced emitKernels(const Placed& placed, StatePlan state, const LowerOptions& options);
/// Throws OutOfMemory (naming device, need, limit and the largest buffers at the peak) when the
/// plan is over the budget. Uses up what was emitted.
Program planMemory(const Placed& placed, const Unplaced& unplaced, const LowerOptions& options);

/// Both. `state` gains the graph's variables; it is unchanged when this throws.
Program lower(const Placed& placed, StatePlan& state, const LowerOptions& options);

/// Places everything on device 0 and lowers it.
Program lower(ir::Graph graph, StatePlan& state, const LowerOptions& options);

}  // namespace sluice::program
