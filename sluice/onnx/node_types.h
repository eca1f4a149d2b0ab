// The element types that the standard has a node for. Internal to this module.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sluice/tensor/shape.h"

namespace sluice::onnx {

/// The element types of a node's operands and results.
struct NodeTypes {
  std::vector<std::optional<DType>> inputs = {};  ///< none: the operand is left out
  std::vector<DType> outputs = {};
};

/// The same types where the standard has this node of the default domain for them; in place of each
/// other one the first type it has that holds the same numbers. Nothing if there is no such type.
/// Integers of 64 bits are held by double up to 2^53.
std::optional<NodeTypes> standardTypes(std::string_view op, const NodeTypes& types);

}  // namespace sluice::onnx
