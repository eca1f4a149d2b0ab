// What is known of driver and GPUs before one is used, and why they cannot be: pure data, so that
// every case is tested without a GPU. Private to the device.
#pragma once

#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace sluice::devices::cuda {

struct GpuFacts {
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
};

struct DriverFacts {
  int version = 0;                        ///< of the driver's CUDA, as CUDART_VERSION; 0: no driver
  cudaError_t countResult = cudaSuccess;  ///< of counting the GPUs
  std::vector<GpuFacts> gpus = {};
};

/// "13.0" for 13000.
std::string versionText(int version);

/// Why this build cannot use the GPU; empty: it can.
std::string whyTooOld(const GpuFacts& gpu);

/// Why none of the GPUs can be used; empty: one can.
std::string whyUnusable(const DriverFacts& facts);

/// Asks the driver.
DriverFacts readDriver();

}  // namespace sluice::devices::cuda
