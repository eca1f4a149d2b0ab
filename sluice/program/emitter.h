// First half of lowering: walks the graph once and emits kernel calls over unplaced buffers.
// Private to the program module.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sluice/device/kernel_table.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/placement.h"
#include "sluice/parallel/segments.h"
#include "sluice/parallel/streaming.h"
#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"

namespace sluice::program {

/// Why a buffer exists; this decides how long it lives and what may share its memory.
enum class BufferUse : std::uint8_t {
  Local,     ///< written and read by kernels
  Feed,      ///< an input
  Drain,     ///< an output; kernels may read it too
  Sent,      ///< like Local, and copied to another device
  Received,  ///< the copy: one per micro-batch, or one per round for values of the update
  Mirror,    ///< this round's copy of a variable that lives on another device
  State,
  Window,  ///< a device's copy of a remote variable
  Remote,  ///< in remote memory: a variable, or a value that is fetched again later
  Constant,
  Packed,
  Scratch
};

/// A call, with the facts about the graph that planning needs.
struct EmittedCall {
  std::int32_t segment = 0;
  device::KernelCall call;
  bool elementwise = false;  ///< an output may overwrite an operand of its type and layout
  bool assignCopy = false;   ///< copies a value into a variable's slice; may be dropped
};

/// A remote variable and the buffers that hold it.
struct StreamedVariable {
  bool beginsAnew = false;  ///< an accumulator whose first write in a round needs no old value
  BufferId remote;
  std::vector<BufferId> windows;  ///< one per device that uses it
};

struct Emitted {
  Table<parallel::SegmentInfo> segments;  ///< one Pack per device, then those of the plan
  Table<Buffer> buffers;                  ///< offsets are set only for State
  Table<BufferUse> uses;
  Table<EmittedCall> calls;  ///< by segment, in time order
  Table<Port> feeds;
  Table<Port> drains;
  Table<Constant> constants;
  Table<Transfer> transfers;
  Table<Collective> collectives;
  Table<StreamedVariable> streamed;
  /// Buffers without an extra slot, with which other lanes could work before or after the kernels.
  std::set<BufferId> withoutLookahead = {};
  bool keepsPacked = false;  ///< packed copies share their bytes with nothing (Program)
};

/// The graph to emit, and where its parts run.
struct EmitInput {
  const ir::Graph& graph;
  const parallel::SegmentPlan& plan;
  const parallel::VariableHomes& homes;  ///< of variables that are not yet in the state plan
  const parallel::Streaming& streaming;
  /// Whether the storage of variables is changed where it is needed, for each micro-batch again,
  /// instead of once before the loop: this takes time instead of memory.
  bool packsInLoop = false;
};

/// Remote variables are used like others here; their windows cover the whole round and have no
/// transfers yet (see streaming.h). `kernels` holds the table of each device; the last one also
/// applies to all further devices.
Emitted emit(const EmitInput& input,
             std::span<const device::KernelTable* const> kernels,
             StatePlan& state);

}  // namespace sluice::program
