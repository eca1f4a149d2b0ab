// Instructions of a block program while it is compiled, before registers have storage: each is
// written by one instruction (and rounded in place by the one behind it).
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

/// Lets an add, sub, div or sqrt of float32 do the multiplications by one number that make its
/// operands and that nobody else reads. The same steps with the same roundings, in one pass over
/// the block instead of two or three. `stores` read registers, too.
void fuseScales(std::vector<Draft>& drafts, const std::vector<Draft>& stores);

}  // namespace sluice::devices::cpu
