// Lists of attributes for the ops of a Builder.
#pragma once

#include <optional>
#include <vector>

#include "sluice/ir/attrs.h"
#include "sluice/tensor/shape.h"

namespace sluice {

/// Removes attributes that are an empty list or string, which then have ONNX's defaults.
std::vector<ir::NamedAttr> given(std::vector<ir::NamedAttr> attrs);
/// Adds the attribute `dtype` if it is set.
std::vector<ir::NamedAttr> withType(std::optional<DType> dtype,
                                    std::vector<ir::NamedAttr> attrs = {});

}  // namespace sluice
