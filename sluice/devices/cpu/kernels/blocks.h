// Block functions: each runs one element-wise op on a block of contiguous elements. The
// element-wise engine chains them; a value never depends on the length of the block or on its
// position in it. Float16 and bfloat16 values are held as float32 between their loads, roundings
// and stores.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sluice/tensor/shape.h"

namespace sluice::devices::cpu {

struct BlockArgs {
  std::array<const void*, 4> in = {};
  std::uint32_t single = 0;  ///< bit i: operand i is one element, used for the whole block
  void* out = nullptr;
  std::int64_t n = 0;
  const double* params = nullptr;  ///< the op's numbers: alpha; low and high
};

using BlockFunction = void (*)(const BlockArgs&);

/// The type in which a value of `dtype` is held between instructions.
constexpr DType heldAs(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype;
}

/// The function of an op whose value operands (for where: the second and third) are held as
/// `dtype`; nullptr if there is none. `op` is the op's name, for some with its form: "gelu:tanh".
BlockFunction findBlockFunction(std::string_view op, DType dtype);
/// Converts between held types.
BlockFunction castFunction(DType from, DType to);
/// Converts stored F16 or BF16 to float32, float32 to storage, and float32 to rounded float32.
BlockFunction loadFunction(DType dtype);
BlockFunction storeFunction(DType dtype);
BlockFunction roundFunction(DType dtype);
/// Copies elements of 1, 2, 4 or 8 bytes; a single operand fills the block.
BlockFunction copyFunction(std::size_t elementBytes);

// The parts of findBlockFunction: block_f32.cpp, block_math.cpp, block_trig.cpp, block_plain.cpp.
BlockFunction findF32Function(std::string_view op);
BlockFunction findMathFunction(std::string_view op);
BlockFunction findTrigFunction(std::string_view op);
BlockFunction findPlainFunction(std::string_view op, DType dtype);

struct NamedBlock {
  std::string_view op;
  BlockFunction function = nullptr;
};

template <class Rows>
BlockFunction findRow(const Rows& rows, std::string_view op) {
  for (const NamedBlock& row : rows) {
    if (row.op == op) {
      return row.function;
    }
  }
  return nullptr;
}

}  // namespace sluice::devices::cpu
