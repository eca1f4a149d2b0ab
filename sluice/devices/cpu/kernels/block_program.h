// A body of element-wise ops, compiled to a list of block instructions on small registers. A single
// op is a body of length one, so that fused and separate execution give the same bits (rule R5). An
// instruction whose operands do not vary along a row (or at all) runs once per row (or tile).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/block_body.h"
#include "sluice/devices/cpu/kernels/blocks.h"
#include "sluice/devices/cpu/kernels/iteration_space.h"

namespace sluice::devices::cpu {

/// How often an instruction runs.
enum class Level : std::uint8_t { Tile, Row, Block };

/// Operands are indices into a table of pointers: memory operands (inputs, then constants), then
/// outputs, then registers.
struct BlockInstruction {
  BlockFunction function = nullptr;
  std::array<std::int32_t, 4> in = {-1, -1, -1, -1};
  std::uint32_t single = 0;
  std::int32_t out = -1;
  Level level = Level::Block;
  std::array<double, 2> params = {};
};

struct GatherInstruction {
  std::int32_t from = -1;  ///< a memory operand
  std::int32_t to = -1;
};

/// When results are written to their outputs. An output may share the memory of an input. Then it
/// is written after the block has been read, or at once if no input that is read later lies there.
enum class Writes : std::uint8_t { AfterReads, AtOnce };

/// An input that is read after an output has been written.
struct LateRead {
  std::size_t input;
  std::size_t output;
};

struct BlockProgram {
  IterationSpace space;
  std::size_t numInputs = 0;
  std::vector<HostTensor> constants = {};
  std::vector<std::size_t> operandBytes = {};  ///< bytes per element: inputs, then constants
  std::vector<std::size_t> outputBytes = {};
  std::vector<GatherInstruction> gathers = {};
  std::vector<GatherInstruction> tileGathers = {};  ///< the same elements for all blocks of a tile
  std::vector<BlockInstruction> tile = {};
  std::vector<BlockInstruction> row = {};
  std::vector<BlockInstruction> block = {};
  std::vector<LateRead> lateReads = {};   ///< pairs that must not share memory (Writes::AtOnce)
  std::vector<std::size_t> streams = {};  ///< operands to prefetch
  std::size_t numRegisters = 0;           ///< block registers, which come first
  std::size_t numSingles = 0;             ///< registers of one element, which follow
  std::size_t registerBytes = 0;          ///< bytes of one block register
  std::int64_t blockElements = 0;         ///< a multiple of the space's period

  std::size_t firstOutput() const { return operandBytes.size(); }
  std::size_t firstRegister() const { return firstOutput() + outputBytes.size(); }
  std::size_t numSlots() const { return firstRegister() + numRegisters + numSingles; }
};

inline constexpr std::size_t kMaxSlots = 320;
inline constexpr std::size_t kSingleBytes = 64;
inline constexpr std::size_t kArenaBytes = 65536;
/// Elements that one thread computes at a time.
inline constexpr std::int64_t kTileElements = 16384;

/// Inputs have these layouts; all results have one shape and layout. Returns nullopt if an op has
/// no block function or the body is too large.
std::optional<BlockProgram> compileBlocks(const BlockBody& body,
                                          std::span<const device::Layout> inputs,
                                          const StoredShape& output,
                                          Writes writes = Writes::AfterReads);

/// Compiles an element-wise op, or a `fused` op whose body has only such ops.
std::optional<BlockProgram> compileBlocks(const ir::OpView& op,
                                          const device::Choice& choice,
                                          Writes writes = Writes::AfterReads);

}  // namespace sluice::devices::cpu
