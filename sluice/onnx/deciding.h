// Operands whose values determine the shape of a result. They are read while importing. Operands
// whose values are not known then are refused, since shapes are static.
#pragma once

#include "sluice/onnx/node.h"

namespace sluice::onnx {

/// The value of operand i. Throws NeedsConstant, whose message says that a shape depends on it.
HostTensor decidingOperand(Node& node, std::size_t i);
/// Operand i, of any type, as one whole number. Throws NeedsConstant or InvalidArgument.
std::int64_t wholeOperand(Node& node, std::size_t i);

}  // namespace sluice::onnx
