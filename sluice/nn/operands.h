// The types of a function's operands. Every function of functional.h passes its float operands
// through here, under the name that it has in policies. Private to the nn module.
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

/// Casts the operands as autocast prescribes for the function. If there are then still both 16-bit
/// and 32-bit floats, casts them as HalfFloatCasting says. Tensors of other types and empty ones do
/// not change. Mixtures of float16 with bfloat16, and of float64 with any other type, are left for
/// the op to refuse.
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

/// A scalar of x's dtype. Throws InvalidArgument for a number that this dtype does not have: a
/// fraction for integers.
Tensor numberLike(const Tensor& x, double number);

/// The values of the tensors, which must belong to the current trace.
std::vector<ir::Value> valuesOf(const std::vector<Tensor>& tensors);
std::vector<Tensor> tensorsOf(ir::GraphBuilder& b, const std::vector<ir::Value>& values);

}  // namespace sluice::nn
