// The main function of tests that need a GPU. Where none can be used, they are skipped with one
// line.
#include <cstdio>
#include <string>

#include <gmock/gmock.h>

#include "sluice/devices/cuda/cuda_device.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  if (const std::string why = sluice::devices::cuda::whyUnusable();
      !why.empty() && !GTEST_FLAG_GET(list_tests)) {
    std::printf("skipped, because devices of kind 'cuda' cannot be used here: %s\n", why.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
