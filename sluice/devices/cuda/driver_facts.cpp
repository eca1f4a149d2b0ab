#include "sluice/devices/cuda/driver_facts.h"

#include <utility>

#include <fmt/format.h>

#include "sluice/devices/cuda/cuda_error.h"

namespace sluice::devices::cuda {

namespace {

// The oldest GPUs that the toolkits of this build compile for.
constexpr int kOldestMajor = 7;
constexpr int kOldestMinor = 5;

}  // namespace

std::string versionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string whyTooOld(const GpuFacts& gpu) {
  if (std::pair(gpu.major, gpu.minor) >= std::pair(kOldestMajor, kOldestMinor)) {
    return "";
  }
  return fmt::format("{} has compute capability {}.{}, and {}.{} is needed",
                     gpu.name,
                     gpu.major,
                     gpu.minor,
                     kOldestMajor,
                     kOldestMinor);
}

std::string whyUnusable(const DriverFacts& facts) {
  if (facts.version == 0) {
    return "there is no NVIDIA driver";
  }
  if (facts.countResult == cudaErrorInsufficientDriver) {
    return fmt::format("the NVIDIA driver supports CUDA {}, and {} is needed: update the driver",
                       versionText(facts.version),
                       versionText(CUDART_VERSION));
  }
  if (facts.countResult != cudaSuccess && facts.countResult != cudaErrorNoDevice) {
    return fmt::format("cudaGetDeviceCount failed: {} ({})",
                       cudaGetErrorString(facts.countResult),
                       cudaGetErrorName(facts.countResult));
  }
  if (facts.gpus.empty()) {
    return "there is an NVIDIA driver and no GPU";
  }
  std::string reasons;
  for (const GpuFacts& gpu : facts.gpus) {
    const std::string reason = whyTooOld(gpu);
    if (reason.empty()) {
      return "";
    }
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  return reasons;
}

DriverFacts readDriver() {
  DriverFacts facts;
  if (cudaDriverGetVersion(&facts.version) != cudaSuccess) {
    facts.version = 0;
  }
  int count = 0;
  if (facts.version != 0) {
    facts.countResult = cudaGetDeviceCount(&count);
  }
  static_cast<void>(cudaGetLastError());  // so that no later call reports it again
  for (int gpu = 0; facts.countResult == cudaSuccess && gpu < count; ++gpu) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
    facts.gpus.push_back({properties.name, properties.major, properties.minor});
  }
  return facts;
}

}  // namespace sluice::devices::cuda
