// Lists of attributes for the ops of a Builder.
#pragma once

#include <optional>
#include <vector>

#include "sluice/ir/attrs.h"
#include "sluice/tensor/dtype.h"

namespace sluice {

/// Without those that are an empty list or word, which then have ONNX's defaults.
std::vector<ir::NamedAttr> given(std::vector<ir::NamedAttr> attrs);
/// With the attribute `dtype` if there is one.
std::vector<ir::NamedAttr> withType(std::optional<DType> dtype,
                                    std::vector<ir::NamedAttr> attrs = {});

}  // namespace sluice
