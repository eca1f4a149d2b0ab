// Random tensors for tests, from a printed seed.
#pragma once

#include <cstdint>

#include "sluice/tensor/host_tensor.h"

namespace sluice::testing {

/// Uniform in [low, high); whole numbers for integer types, coin flips for bool.
HostTensor randomTensor(std::uint64_t seed, const TensorType& type, double low, double high);

/// The largest difference of two tensors, each element scaled by max(1, |b|); infinite where only
/// one is NaN or the infinities differ.
double relativeDifference(const HostTensor& a, const HostTensor& b);

/// What a result of `dtype` after `terms` rounded additions may differ from the reference by.
double tolerance(DType dtype, std::int64_t terms = 1);

}  // namespace sluice::testing
