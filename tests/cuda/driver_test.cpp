// Why GPUs cannot be used, for every state that a driver can be in. This needs none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/devices/cuda/cuda_device.h"
#include "sluice/devices/cuda/driver_facts.h"

namespace sluice::devices::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const GpuFacts kNew{"Hopper", 9, 0};
const GpuFacts kOldest{"Turing", 7, 5};
const GpuFacts kOld{"Volta", 7, 0};
const GpuFacts kVeryOld{"Maxwell", 5, 2};

DriverFacts driver(int version, cudaError_t result, std::vector<GpuFacts> gpus = {}) {
  return {.version = version, .countResult = result, .gpus = std::move(gpus)};
}

TEST(CudaDriver, ThatIsNotThereIsSaid) {
  EXPECT_EQ(whyUnusable(DriverFacts{}), "there is no NVIDIA driver");
}

TEST(CudaDriver, ThatIsTooOldIsNamedWithBothVersions) {
  EXPECT_THAT(whyUnusable(driver(11040, cudaErrorInsufficientDriver)),
              AllOf(HasSubstr("supports CUDA 11.4"),
                    HasSubstr(versionText(CUDART_VERSION) + " is needed"),
                    HasSubstr("update the driver")));
}

TEST(CudaDriver, WithoutAGpuIsSaid) {
  EXPECT_EQ(whyUnusable(driver(13000, cudaErrorNoDevice)), "there is an NVIDIA driver and no GPU");
  EXPECT_EQ(whyUnusable(driver(13000, cudaSuccess)), "there is an NVIDIA driver and no GPU");
}

TEST(CudaDriver, ThatFailsIsQuoted) {
  EXPECT_THAT(
      whyUnusable(driver(13000, cudaErrorDevicesUnavailable)),
      AllOf(HasSubstr("cudaGetDeviceCount failed"), HasSubstr("cudaErrorDevicesUnavailable")));
}

TEST(CudaDriver, OfOldGpusNamesEachAndWhatIsNeeded) {
  EXPECT_EQ(whyUnusable(driver(13000, cudaSuccess, {kOld, kVeryOld})),
            "Volta has compute capability 7.0, and 7.5 is needed; Maxwell has compute capability "
            "5.2, and 7.5 is needed");
}

TEST(CudaDriver, WithOneGoodGpuIsGoodEnough) {
  EXPECT_EQ(whyUnusable(driver(13000, cudaSuccess, {kVeryOld, kOldest})), "");
  EXPECT_EQ(whyUnusable(driver(13000, cudaSuccess, {kNew})), "");
}

TEST(CudaDriver, OfThisMachineIsReadWithoutFailing) {
  const DriverFacts facts = readDriver();
  EXPECT_EQ(whyUnusable(facts), whyUnusable());
  EXPECT_EQ(static_cast<int>(facts.gpus.size()), gpuCount().value_or(0));
}

}  // namespace
}  // namespace sluice::devices::cuda
