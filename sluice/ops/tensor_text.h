// Tensors as text for people: brackets per axis, aligned elements, long axes cut to their edges.
// print_tensor uses it.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/tensor/shape.h"

namespace sluice::ops {

enum class FloatFormat : std::uint8_t { Auto, Fixed, Scientific, None };

struct TextOptions {
  std::int64_t summariseThreshold = 1000;  ///< more elements are cut to the edges; 0: never
  std::int64_t edgeItems = 3;              ///< shown on either side of a cut
  std::int64_t maxLineWidth = 80;          ///< 0: lines are not broken
  std::int64_t digits = 4;                 ///< of a number in all; 0: shortest, not aligned
  FloatFormat floatFormat = FloatFormat::Auto;
  std::string separator = ", ";
  std::string openBracket = "(";
  std::string closeBracket = ")";
};

/// `data` is plain row-major memory.
std::string tensorText(const TensorType& type, const void* data, const TextOptions& options = {});

}  // namespace sluice::ops
