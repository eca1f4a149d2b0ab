// Operands whose values decide the shape of a result: known ones are read while importing, all
// others are refused, since shapes are static.
#pragma once

#include "sluice/onnx/node.h"

namespace sluice::onnx {

/// The value of operand i; throws NeedsConstant saying that a shape depends on it.
HostTensor decidingOperand(Node& node, std::size_t i);
/// Operand i as one whole number, of any type; throws NeedsConstant or InvalidArgument.
std::int64_t wholeOperand(Node& node, std::size_t i);

}  // namespace sluice::onnx
