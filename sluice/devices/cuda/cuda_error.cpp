#include "sluice/devices/cuda/cuda_error.h"

#include "sluice/base/error.h"

namespace sluice::devices::cuda {

void check(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) {
    return;
  }
  static_cast<void>(cudaGetLastError());  // so that no later call reports it again
  raise<DeviceError>(
      "CUDA: {} failed: {} ({})", call, cudaGetErrorString(result), cudaGetErrorName(result));
}

void select(int gpu) {
  check(cudaSetDevice(gpu), "cudaSetDevice");
}

}  // namespace sluice::devices::cuda
