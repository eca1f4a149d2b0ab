// Stores tensor types in attributes, for ops whose result types do not follow from their operands.
// One attribute lists the element types by name, the other the rank and the extents of each tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

struct TypeAttrs {
  std::vector<std::string> dtypes;
  std::vector<std::int64_t> shapes;
};

TypeAttrs typeAttrs(std::span<const TensorType> types);

/// The types that two attributes of an op describe; throws InvalidArgument if they are invalid.
std::vector<TensorType> typesOf(const ir::OpView& op,
                                std::string_view dtypes,
                                std::string_view shapes);

}  // namespace sluice::ops
