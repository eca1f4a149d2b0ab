// Lowering: a finished graph becomes a Program. Kernels and storage layouts are chosen, storage
// changes inserted, values given planned slices, and the order of a round laid out as tasks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/device/kernel.h"
#include "sluice/ir/graph.h"
#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"

namespace sluice::program {

struct LowerOptions {
  std::int32_t microBatchesPerRound = 1;
  std::int32_t feedSlots = 2;       ///< micro-batches of input that may wait on the device
  std::int32_t drainSlots = 2;      ///< micro-batches of output that may wait to be fetched
  DrainRule drainRule = {};         ///< for every output
  std::size_t memoryPerDevice = 0;  ///< 0: not limited
};

/// Lowers for one device. Throws Unsupported for an op without a kernel, InvalidArgument for a
/// graph that cannot be run in rounds, OutOfMemory (naming need, limit and the largest buffers at
/// the peak) when the plan is over the budget. `state` gains the graph's variables; it is unchanged
/// when this throws.
Program lower(const ir::Graph& graph,
              const device::KernelTable& kernels,
              StatePlan& state,
              const LowerOptions& options);

}  // namespace sluice::program
