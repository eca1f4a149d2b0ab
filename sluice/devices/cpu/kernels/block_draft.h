// Instructions of a block program during compilation, before registers have storage. Each register
// is written by one instruction, and the next instruction may round it in place.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sluice/devices/cpu/kernels/block_program.h"

namespace sluice::devices::cpu {

/// Where a value is. Registers are numbered without reuse.
struct Place {
  enum class Kind : std::uint8_t { None, Memory, Register, Output };
  Kind kind = Kind::None;
  std::size_t index = 0;
  Level level = Level::Block;
};

inline bool sameRegister(const Place& a, const Place& b) {
  return a.kind == Place::Kind::Register && b.kind == a.kind && a.index == b.index;
}

struct Draft {
  BlockFunction function;
  std::vector<Place> in;
  Place out;
  Level level = Level::Block;
  std::array<double, 2> params = {};
};

/// Merges instructions of float32 into the one that reads them, if nothing else does:
/// multiplications by one number into add, sub, div or sqrt; sub, mul and add of blocks in a row,
/// as in batch norm; and sums or such rows into relu or clamp. The steps and roundings stay the
/// same, but the block is passed over once instead of several times. `stores` read registers, too.
void fuseSteps(std::vector<Draft>& drafts, const std::vector<Draft>& stores);

}  // namespace sluice::devices::cpu
