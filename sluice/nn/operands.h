// The types of a function's operands: every function of functional.h takes its float operands
// through here, under the name that policies know it by. Private to the nn module.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/nn/tensor.h"

namespace sluice::nn {

constexpr bool isHalf(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}

/// First what autocast says of the function, then, where 16-bit and 32-bit floats still meet, what
/// HalfFloatCasting says. Tensors of other types and empty ones stay as they are; float16 with
/// bfloat16, and float64 with any other, is left to the op to refuse.
void resolveTypes(std::string_view function, std::span<Tensor> operands);

template <class... Tensors>
std::array<Tensor, sizeof...(Tensors)> operands(std::string_view function,
                                                const Tensors&... tensors) {
  std::array<Tensor, sizeof...(Tensors)> all{tensors...};
  resolveTypes(function, all);
  return all;
}

inline Tensor operand(std::string_view function, const Tensor& x) {
  return operands(function, x)[0];
}

/// The values of tensors that must belong to the current trace.
std::vector<ir::Value> valuesOf(const std::vector<Tensor>& tensors);
std::vector<Tensor> tensorsOf(ir::GraphBuilder& b, const std::vector<ir::Value>& values);

}  // namespace sluice::nn
