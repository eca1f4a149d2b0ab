#include "sluice/devices/cpu/kernels/block_run.h"

#include <algorithm>
#include <array>

namespace sluice::devices::cpu {
namespace {

constexpr std::size_t kLine = 64;         // bytes of a cache line
constexpr std::size_t kFractions = 1024;  // of an element, for shares of a block

/// Runs the blocks of one tile in order.
class TileRun {
 public:
  TileRun(const BlockProgram& program, const BlockOperands& operands, std::byte* arena)
      : program_(program), space_(program.space) {
    for (std::size_t i = 0; i < program.operandBytes.size(); ++i) {
      const bool input = i < program.numInputs;
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): no instruction writes an operand
      base_[i] = const_cast<std::byte*>(input ? static_cast<const std::byte*>(operands.inputs[i])
                                              : program.constants[i - program.numInputs].bytes());
      slots_[i] = base_[i];
    }
    for (std::size_t i = 0; i < program.outputBytes.size(); ++i) {
      base_[program.firstOutput() + i] = static_cast<std::byte*>(operands.outputs[i]);
    }
    std::size_t slot = program.firstRegister();
    for (std::size_t i = 0; i < program.numRegisters; ++i, arena += program.registerBytes) {
      slots_[slot++] = arena;
    }
    for (std::size_t i = 0; i < program.numSingles; ++i, arena += kSingleBytes) {
      slots_[slot++] = arena;
    }
  }

  void run(std::int64_t first, std::int64_t last) {
    gather(program_.tileGathers, first, std::min(last - first, program_.blockElements));
    execute(program_.tile, 1);
    startRow(first);
    for (std::int64_t at = first; at < last;) {
      std::int64_t count = std::min(last - at, program_.blockElements);
      if (space_.byRows()) {
        count = std::min(count, space_.rowLength() - column_);
      }
      runBlock(at, count);
      at += count;
      column_ += count;
      if (space_.byRows() && column_ == space_.rowLength()) {
        nextRow();
      }
    }
  }

 private:
  void startRow(std::int64_t first) {
    std::int64_t rest = first / space_.rowLength();
    column_ = first % space_.rowLength();
    const std::size_t axes = space_.extents().size() - 1;
    for (std::size_t axis = axes; axis-- > 0;) {
      at_[axis] = rest % space_.extents()[axis];
      rest /= space_.extents()[axis];
    }
    for (std::size_t i = 0; i < program_.operandBytes.size(); ++i) {
      rowOffset_[i] = 0;
      for (std::size_t axis = 0; axis < axes; ++axis) {
        rowOffset_[i] += at_[axis] * space_.operand(i).strides[axis];
      }
    }
  }

  void nextRow() {
    column_ = 0;
    std::size_t axis = space_.extents().size() - 1;
    while (axis-- > 0) {
      const bool wraps = at_[axis] + 1 == space_.extents()[axis];
      const std::int64_t step = wraps ? -at_[axis] : 1;
      for (std::size_t i = 0; i < program_.operandBytes.size(); ++i) {
        rowOffset_[i] += step * space_.operand(i).strides[axis];
      }
      at_[axis] += step;
      if (!wraps) {
        return;
      }
    }
  }

  void runBlock(std::int64_t at, std::int64_t count) {
    for (std::size_t i = 0; i < program_.operandBytes.size(); ++i) {
      slots_[i] = base_[i] + offsetOf(i, at) * static_cast<std::int64_t>(program_.operandBytes[i]);
    }
    for (std::size_t i = 0; i < program_.outputBytes.size(); ++i) {
      const std::size_t slot = program_.firstOutput() + i;
      slots_[slot] = base_[slot] + at * static_cast<std::int64_t>(program_.outputBytes[i]);
    }
    gather(program_.gathers, at, count);
    execute(program_.row, 1);
    if (program_.streams.empty()) {
      execute(program_.block, count);
    } else {
      executeAndFetch(count);
    }
  }

  /// Asks for the operands of the next block while this one is computed. Instructions are too short
  /// for the processor to see past the next one, so that without this it waits for memory at every
  /// first read, and memory waits for it all the time between.
  void executeAndFetch(std::int64_t count) const {
    const std::size_t parts = program_.block.size();
    const std::size_t share = static_cast<std::size_t>(count) * kFractions / parts;
    for (std::size_t i = 0; i < parts; ++i) {
      execute(program_.block[i], count);
      for (const std::size_t operand : program_.streams) {
        const std::size_t bytes = program_.operandBytes[operand];
        const std::byte* next = slots_[operand] + static_cast<std::size_t>(count) * bytes;
        const std::size_t end = (i + 1) * share * bytes / kFractions;
        for (std::size_t at = i * share * bytes / kFractions / kLine * kLine; at < end;
             at += kLine) {
          __builtin_prefetch(next + at);
        }
      }
    }
  }

  void gather(const std::vector<GatherInstruction>& gathers, std::int64_t at, std::int64_t count) {
    for (const GatherInstruction& each : gathers) {
      const auto from = static_cast<std::size_t>(each.from);
      space_.gather(from,
                    base_[from],
                    slots_[static_cast<std::size_t>(each.to)],
                    {at, count},
                    program_.operandBytes[from]);
    }
  }

  std::int64_t offsetOf(std::size_t operand, std::int64_t at) const {
    switch (space_.operand(operand).access) {
      case Access::Contiguous:
        return at;
      case Access::RowContiguous:
        return rowOffset_[operand] + column_;
      case Access::RowUniform:
        return rowOffset_[operand];
      default:
        return 0;
    }
  }

  void execute(const std::vector<BlockInstruction>& instructions, std::int64_t count) const {
    for (const BlockInstruction& instruction : instructions) {
      execute(instruction, count);
    }
  }

  void execute(const BlockInstruction& instruction, std::int64_t count) const {
    BlockArgs args{.single = instruction.single,
                   .out = slots_[static_cast<std::size_t>(instruction.out)],
                   .n = count,
                   .params = instruction.params.data()};
    for (std::size_t i = 0; i < args.in.size() && instruction.in[i] >= 0; ++i) {
      args.in[i] = slots_[static_cast<std::size_t>(instruction.in[i])];
    }
    instruction.function(args);
  }

  const BlockProgram& program_;
  const IterationSpace& space_;
  std::array<std::byte*, kMaxSlots> base_;
  std::array<std::byte*, kMaxSlots> slots_;
  std::array<std::int64_t, kMaxSlots> rowOffset_;
  std::array<std::int64_t, IterationSpace::kMaxAxes> at_{};
  std::int64_t column_ = 0;
};

}  // namespace

void runBlocks(const BlockProgram& program,
               const BlockOperands& operands,
               std::int64_t first,
               std::int64_t last) {
  alignas(64) std::array<std::byte, kArenaBytes> arena;
  TileRun(program, operands, arena.data()).run(first, last);
}

namespace {

std::int64_t elementsOfTile(const BlockProgram& program) {
  return kTileElements / program.space.period() * program.space.period();
}

}  // namespace

std::int64_t tilesOf(const BlockProgram& program) {
  const std::int64_t elements = elementsOfTile(program);
  return (program.space.elements() + elements - 1) / elements;
}

void runBlocksOfTile(const BlockProgram& program,
                     const BlockOperands& operands,
                     std::int64_t tile) {
  const std::int64_t elements = elementsOfTile(program);
  const std::int64_t first = tile * elements;
  runBlocks(program, operands, first, std::min(program.space.elements(), first + elements));
}

void runBlocks(const BlockProgram& program, const BlockOperands& operands, Workers& workers) {
  workers.parallelFor(tilesOf(program),
                      [&](std::int64_t tile) { runBlocksOfTile(program, operands, tile); });
}

}  // namespace sluice::devices::cpu
