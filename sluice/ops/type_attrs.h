// Tensor types as attributes, for ops whose results do not follow from their operands: element
// types as words and, in one list, of each tensor the rank and then the extents.
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

/// The types that two attributes of an op describe; throws InvalidArgument if they do not.
std::vector<TensorType> typesOf(const ir::OpView& op,
                                std::string_view dtypes,
                                std::string_view shapes);

}  // namespace sluice::ops
