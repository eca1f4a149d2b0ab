// Prints tensors for people: brackets per axis, aligned elements, long axes cut to their edges.
// Used by print_tensor.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::ops {

enum class FloatFormat : std::uint8_t { Auto, Fixed, Scientific, None };

struct TextOptions {
  std::int64_t summariseThreshold = 1000;  ///< larger tensors are cut to their edges; 0: never
  std::int64_t edgeItems = 3;              ///< number of items on each side of a cut
  std::int64_t maxLineWidth = 80;          ///< 0: lines are not broken
  std::int64_t digits = 4;                 ///< digits per number; 0: shortest, not aligned
  FloatFormat floatFormat = FloatFormat::Auto;
  std::string separator = ", ";
  std::string openBracket = "(";
  std::string closeBracket = ")";
};

/// `data` is plain row-major memory.
std::string tensorText(const TensorType& type, const void* data, const TextOptions& options = {});

}  // namespace sluice::ops

#pragma GCC visibility pop
