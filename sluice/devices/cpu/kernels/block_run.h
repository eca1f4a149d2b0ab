// Runs a BlockProgram over a range of result elements, or over all of them in tiles.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/base/workers.h"
#include "sluice/devices/cpu/kernels/block_program.h"

namespace sluice::devices::cpu {

/// Addresses in the order of the program's inputs and outputs. An output may share the memory of an
/// input that is read element by element.
struct BlockOperands {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
};

/// Computes elements [first, last) of the results in storage order, on the calling thread.
void runBlocks(const BlockProgram& program,
               const BlockOperands& operands,
               std::int64_t first,
               std::int64_t last);

/// The tiles of all results.
std::int64_t tilesOf(const BlockProgram& program);
void runBlocksOfTile(const BlockProgram& program, const BlockOperands& operands, std::int64_t tile);

void runBlocks(const BlockProgram& program, const BlockOperands& operands, Workers& workers);

}  // namespace sluice::devices::cpu
