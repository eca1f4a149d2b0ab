// Conversions between float32 and the 16-bit floats, which are storage types here.
#pragma once

#include <cstdint>

#include "sluice/base/workers.h"
#include "sluice/tensor/shape.h"

namespace sluice::devices::cpu {

/// Converts `count` elements of F16 or BF16 to float32, split over the team.
void toFloat(DType dtype, const void* from, float* to, std::int64_t count, Workers& workers);

void toFloat(DType dtype, const void* from, float* to, std::int64_t count);

/// Converts from float32, rounding to nearest even.
void fromFloat(DType dtype, const float* from, void* to, std::int64_t count);
void fromFloat(DType dtype, const float* from, void* to, std::int64_t count, Workers& workers);

}  // namespace sluice::devices::cpu
