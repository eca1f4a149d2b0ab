// Random tensors for tests, from a printed seed.
#pragma once

#include <cstdint>

#include "sluice/tensor/host_tensor.h"

namespace sluice::testing {

/// Uniform in [low, high); whole numbers for integer types, coin flips for bool.
HostTensor randomTensor(std::uint64_t seed, const TensorType& type, double low, double high);

/// The largest difference of two tensors; each element is divided by max(1, |b|). Infinite if only
/// one of two elements is NaN or if infinities differ.
double relativeDifference(const HostTensor& a, const HostTensor& b);

/// How much a result of `dtype` may differ from the reference after `terms` rounded additions.
double tolerance(DType dtype, std::int64_t terms = 1);

}  // namespace sluice::testing
