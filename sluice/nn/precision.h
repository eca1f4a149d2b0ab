// A model's settings for float16, bfloat16 and float32, as plain values: how the operands of a
// function are cast if their types differ, and in which type autocast runs which function. Options
// hold the settings, a trace reads them, and operands.h applies them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

/// The common type of a function's operands if some are float16 (or bfloat16) and others float32.
/// Default: the 16-bit type.
enum class HalfFloatCasting : std::uint8_t { FloatDowncastToHalf, HalfUpcastToFloat, Default };

/// Lists functions by the type that autocast gives their float operands. Names are PyTorch's names
/// of functions ("conv2d", "matmul") or layers ("Conv2d", "ReLU"). "convolution" stands for all
/// convolutions, and "matmul" for all matrix products that have no rule of their own.
struct Policy {
  std::vector<std::string> fp16 = {};     ///< run in `half`
  std::vector<std::string> fp32 = {};     ///< run in float32
  std::vector<std::string> promote = {};  ///< run in float32 if the operands' types differ
  std::vector<std::string> demote = {};   ///< run in `half` if the operands' types differ
  DType half = DType::F16;                ///< F16 or BF16

  /// Runs matrix products and convolutions in `half`, and promotes functions that would lose too
  /// much precision on mixed operands.
  static Policy standard();
  bool operator==(const Policy&) const = default;
};

/// Throws InvalidArgument for a name that no function and no layer has, for a name in two lists,
/// and for a `half` other than F16 or BF16.
void requireValid(const Policy& policy);

enum class AutocastRule : std::uint8_t { None, Half, Float, Promote, Demote };

/// The policy's rule for a function in a layer of this kind. A rule for the layer comes first, then
/// one for the function, then one for the more general function: "bmm" is a "matmul".
AutocastRule ruleOf(const Policy& policy, std::string_view function, std::string_view layer);

/// How a trace treats types.
struct PrecisionSettings {
  HalfFloatCasting halfFloatCasting = HalfFloatCasting::Default;
  bool autocastEnabled = true;  ///< false: every request for autocast is ignored
  Policy autocastPolicy = Policy::standard();
  bool runningStatisticsAlwaysFloat = true;  ///< batch norm's averages are computed in float32
};

}  // namespace sluice::nn

#pragma GCC visibility pop
