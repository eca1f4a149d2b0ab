// How calls of the CUDA runtime fail: as errors of Sluice that name the call. Private to the
// device.
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>

namespace sluice::devices::cuda {

/// Throws DeviceError with the call, the name of the error and its text, unless it succeeded.
void check(cudaError_t result, std::string_view call);

/// Makes the GPU the one that CUDA's calls of this thread mean.
void select(int gpu);

}  // namespace sluice::devices::cuda
