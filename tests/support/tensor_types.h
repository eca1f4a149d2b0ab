// Short names for types of tensors.
#pragma once

#include <utility>

#include "sluice/tensor/shape.h"

namespace sluice::testing {

inline TensorType f32(Shape shape) {
  return {DType::F32, std::move(shape)};
}

}  // namespace sluice::testing
