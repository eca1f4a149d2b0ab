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
#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"

namespace sluice::program {

/// Why a buffer exists; decides how long it lives and what may share its memory.
enum class BufferUse : std::uint8_t { Local, Feed, Drain, State, Constant, Packed, Scratch };

/// A call with the graph fact that planning needs.
struct EmittedCall {
  SegmentKind segment = SegmentKind::Forward;
  device::KernelCall call;
  bool elementwise = false;  ///< an output may overwrite an operand of its type and layout
  bool assignCopy = false;   ///< copies a value into a variable's slice; droppable
};

struct Emitted {
  std::vector<Buffer> buffers;  ///< offsets set for State only
  std::vector<BufferUse> uses;
  std::vector<EmittedCall> calls;  ///< in time order; Pack calls first
  std::vector<Stream> feeds;
  std::vector<Stream> drains;
  std::vector<Constant> constants;
};

Emitted emit(const ir::Graph& graph, const device::KernelTable& kernels, StatePlan& state);

}  // namespace sluice::program
