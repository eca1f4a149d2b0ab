// What a model says about float16, bfloat16 and float32 as plain values: what becomes of operands
// of one function that differ, and which functions autocast puts into which type. Options hold
// them, a trace reads them, operands.h applies them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/tensor/dtype.h"

namespace sluice::nn {

/// Which of two types float16 (or bfloat16) and float32 operands of one function get. Default: that
/// of 16 bits.
enum class HalfFloatCasting : std::uint8_t { FloatDowncastToHalf, HalfUpcastToFloat, Default };

/// Functions by the type that autocast gives their float operands. Names are PyTorch's, of
/// functions ("conv2d", "matmul") or layers ("Conv2d", "ReLU"); "convolution" stands for all
/// convolutions, "matmul" for all matrix products that have no rule of their own.
struct Policy {
  std::vector<std::string> fp16 = {};     ///< in `half`
  std::vector<std::string> fp32 = {};     ///< in float32
  std::vector<std::string> promote = {};  ///< in float32 if they differ
  std::vector<std::string> demote = {};   ///< in `half` if they differ
  DType half = DType::F16;                ///< or BF16

  /// Matrix products and convolutions in `half`; functions that lose too much of a mixture promote.
  static Policy standard();
  bool operator==(const Policy&) const = default;
};

/// Throws InvalidArgument for a name that no function and no layer has, a name in two lists, or a
/// `half` that is not F16 or BF16.
void requireValid(const Policy& policy);

enum class AutocastRule : std::uint8_t { None, Half, Float, Promote, Demote };

/// What the policy says of a function applied in a layer of this kind. The layer counts first, then
/// the function, then what it is a case of: "bmm" is a "matmul".
AutocastRule ruleOf(const Policy& policy, std::string_view function, std::string_view layer);

/// How a trace treats types.
struct PrecisionSettings {
  HalfFloatCasting halfFloatCasting = HalfFloatCasting::Default;
  bool autocastEnabled = true;  ///< false: every request for autocast is ignored
  Policy autocastPolicy = Policy::standard();
  bool runningStatisticsAlwaysFloat = true;  ///< batch norm's averages are computed in float32
};

}  // namespace sluice::nn
