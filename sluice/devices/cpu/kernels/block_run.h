// Runs a BlockProgram over a range of result elements, or over all of them in tiles.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/base/workers.h"
#include "sluice/devices/cpu/kernels/block_program.h"

namespace sluice::devices::cpu {

/// In the order of the program's inputs and outputs. An output may lie in the memory of an input
/// that is read element by element.
struct BlockOperands {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
};

/// Elements [first, last) of the results in storage order, by the calling thread.
void runBlocks(const BlockProgram& program,
               const BlockOperands& operands,
               std::int64_t first,
               std::int64_t last);

void runBlocks(const BlockProgram& program, const BlockOperands& operands, Workers& workers);

}  // namespace sluice::devices::cpu
