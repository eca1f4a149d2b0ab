// The CUDA device: a GPU, or one of several equal shares of it. Its memory is the GPU's, its queues
// are streams, and its kernels are generated for the shapes of an op and compiled when a program is
// loaded; cuBLASLt computes matrix products. What it has no kernel for, the host runs.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "sluice/device/device.h"

namespace sluice {
class FileCache;
}

namespace sluice::devices::cuda {

/// Why no GPU can be used here (no driver, an old one, no GPU, old GPUs); empty: one can.
std::string whyUnusable();
/// The number of GPUs.
std::optional<int> gpuCount();

struct CudaDeviceOptions {
  int index = 0;
  int shares = 1;  ///< number of devices that share the GPU, each with its part of the memory
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< 0: the GPU's memory divided by the shares
  device::Tuning tuning = {};
  std::shared_ptr<const FileCache> codeCache = nullptr;  ///< null: kernels are compiled
};

/// Throws OutOfMemory if the shares may use more than the GPU has, DeviceError if the GPU is too
/// old.
std::unique_ptr<device::Device> makeCudaDevice(const CudaDeviceOptions& options = {});

/// Memory of the GPU that another library owns, for copies from and to it; the caller keeps it.
/// Throws InvalidArgument if it is not memory of that GPU.
std::unique_ptr<device::Memory> wrapMemory(void* pointer, std::size_t bytes, int gpu);

}  // namespace sluice::devices::cuda
