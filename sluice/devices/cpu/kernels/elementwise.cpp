// All element-wise ops and `fused`: runs a BlockProgram over tiles of the result.
#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/block_program.h"
#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

/// Runs the blocks of one tile in order.
class TileRun {
 public:
  TileRun(const BlockProgram& program, const device::KernelRun& run, std::byte* arena)
      : program_(program), space_(program.space) {
    for (std::size_t i = 0; i < program.operandBytes.size(); ++i) {
      const bool input = i < program.numInputs;
      base_[i] = const_cast<std::byte*>(input ? run.in<std::byte>(i)
                                              : program.constants[i - program.numInputs].bytes());
      slots_[i] = base_[i];
    }
    for (std::size_t i = 0; i < program.outputBytes.size(); ++i) {
      base_[program.firstOutput() + i] = run.out<std::byte>(i);
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
    for (const GatherInstruction& gather : program_.gathers) {
      const auto from = static_cast<std::size_t>(gather.from);
      space_.gather(from,
                    base_[from],
                    slots_[static_cast<std::size_t>(gather.to)],
                    {at, count},
                    program_.operandBytes[from]);
    }
    execute(program_.row, 1);
    execute(program_.block, count);
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
      BlockArgs args{.single = instruction.single,
                     .out = slots_[static_cast<std::size_t>(instruction.out)],
                     .n = count,
                     .params = instruction.params.data()};
      for (std::size_t i = 0; i < args.in.size() && instruction.in[i] >= 0; ++i) {
        args.in[i] = slots_[static_cast<std::size_t>(instruction.in[i])];
      }
      instruction.function(args);
    }
  }

  const BlockProgram& program_;
  const IterationSpace& space_;
  std::array<std::byte*, kMaxSlots> base_;
  std::array<std::byte*, kMaxSlots> slots_;
  std::array<std::int64_t, kMaxSlots> rowOffset_;
  std::array<std::int64_t, IterationSpace::kMaxAxes> at_{};
  std::int64_t column_ = 0;
};

class Elementwise : public device::Kernel {
 public:
  explicit Elementwise(BlockProgram program) : program_(std::move(program)) {}

  void run(const device::KernelRun& run) override {
    const std::int64_t total = program_.space.elements();
    const std::int64_t tiles = (total + kTileElements - 1) / kTileElements;
    run.workers.parallelFor(tiles, [&](std::int64_t tile) {
      alignas(64) std::array<std::byte, kArenaBytes> arena;
      const std::int64_t first = tile * kTileElements;
      TileRun(program_, run, arena.data()).run(first, std::min(total, first + kTileElements));
    });
  }

 private:
  BlockProgram program_;
};

}  // namespace

bool supportsElementwise(const ir::OpView& op) {
  return compileBlocks(op, device::plainChoice(op, "")).has_value();
}

device::Choice chooseElementwise(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const std::int64_t rank = op.outputs[0].shape.rank();
  if (rank >= 3 && rank <= 5) {
    choice.rule = device::LayoutRule::Follow;
  }
  return choice;
}

std::unique_ptr<device::Kernel> makeElementwise(const ir::OpView& op,
                                                const device::Choice& choice) {
  std::optional<BlockProgram> program = compileBlocks(op, choice);
  SLUICE_CHECK(program.has_value(), "{} does not compile to blocks", op.def.name);
  return std::make_unique<Elementwise>(std::move(*program));
}

}  // namespace sluice::devices::cpu
