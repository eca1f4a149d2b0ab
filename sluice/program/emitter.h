// First half of lowering: walks the graph once and emits kernel calls over unplaced buffers.
// Private to the program module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sluice/device/kernel.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/placement.h"
#include "sluice/parallel/segments.h"
#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"

namespace sluice::program {

/// Why a buffer exists; decides how long it lives and what may share its memory.
enum class BufferUse : std::uint8_t {
  Local,     ///< written and read by kernels
  Feed,      ///< an input
  Drain,     ///< an output; kernels may read it too
  Sent,      ///< like Local, and copied to another device
  Received,  ///< the copy, one per micro-batch or, of the update's values, one per round
  Mirror,    ///< this round's copy of a variable that lives on another device
  State,
  Constant,
  Packed,
  Scratch
};

/// A call with the graph fact that planning needs.
struct EmittedCall {
  std::int32_t segment = 0;
  device::KernelCall call;
  bool elementwise = false;  ///< an output may overwrite an operand of its type and layout
  bool assignCopy = false;   ///< copies a value into a variable's slice; droppable
};

struct Emitted {
  std::vector<parallel::SegmentInfo> segments;  ///< a Pack per device, then the plan's
  std::vector<Buffer> buffers;                  ///< offsets set for State only
  std::vector<BufferUse> uses;
  std::vector<EmittedCall> calls;  ///< by segment, in time order
  std::vector<Stream> feeds;
  std::vector<Stream> drains;
  std::vector<Constant> constants;
  std::vector<Transfer> transfers;
  std::vector<Reduction> reductions;
};

/// `homes` gives the device of variables that `state` does not have yet.
Emitted emit(const ir::Graph& graph,
             const parallel::SegmentPlan& plan,
             const parallel::VariableHomes& homes,
             const device::KernelTable& kernels,
             StatePlan& state);

}  // namespace sluice::program
