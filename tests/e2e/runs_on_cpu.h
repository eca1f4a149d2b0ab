// Tests that know how CPU devices plan are skipped where SLUICE_DEVICE names another kind.
#pragma once

#include <cstdlib>
#include <string_view>

namespace sluice::testing {

inline bool runsOnCpu() {
  const char* devices = std::getenv("SLUICE_DEVICE");
  return devices == nullptr || std::string_view(devices).starts_with("cpu");
}

inline constexpr std::string_view kCountsCpuBytes =
    "it counts bytes of plans for CPU devices: other kinds have other scratch, alignment and "
    "memory "
    "of their own";
inline constexpr std::string_view kNamesCpuKernels =
    "it names kernels of CPU devices: other kinds fuse other chains, unroll loops or have other "
    "kernels";
inline constexpr std::string_view kComparesCpuBits =
    "it compares with the bits of CPU devices, which other kinds have only to tolerance";

}  // namespace sluice::testing
