// For tests of CPU kernels: compares an op with its reference, and with itself on more threads and
// in channels-last storage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/ops/interpreter.h"
#include "tests/support/device_run.h"
#include "tests/support/random_tensor.h"

namespace sluice::devices::cpu {

/// Compares 1 thread with 2 and 3; also plain with channels-last storage if the kernel follows it.
inline void expectSameBitsEverywhere(testing::DeviceRun run,
                                     const std::vector<HostTensor>& one,
                                     const std::string& what) {
  std::vector<device::Layout> layouts = {device::Layout::plain()};
  if (one[0].shape().rank() >= 3) {
    layouts.push_back(device::Layout::channelsLast());
  }
  for (const int threads : {2, 3}) {
    for (const device::Layout& layout : layouts) {
      run.follow = layout;
      const auto more = testing::runOnDevice(*makeCpuDevice({.threads = threads}), run);
      for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_TRUE(more[i].sameBits(one[i]))
            << run.def.name << " " << what << " output " << i << " " << layout.str();
      }
    }
  }
}

/// Expects the reference within the tolerance of `terms` additions, and the same bits in every run.
inline void check(const testing::DeviceRun& run, std::int64_t terms, const std::string& what) {
  const std::vector<HostTensor> expected = ops::evaluate(run.def, run.attrs, run.inputs, run.info);
  const std::vector<HostTensor> one = testing::runOnDevice(*makeCpuDevice(), run);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(testing::relativeDifference(one[i], expected[i]),
              testing::tolerance(one[i].dtype(), terms))
        << run.def.name << " " << what << " output " << i;
  }
  expectSameBitsEverywhere(run, one, what);
}

/// Expects the bits of the reference in every run.
inline void checkExact(const testing::DeviceRun& run, const std::string& what) {
  const std::vector<HostTensor> expected = ops::evaluate(run.def, run.attrs, run.inputs, run.info);
  const std::vector<HostTensor> one = testing::runOnDevice(*makeCpuDevice(), run);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(one[i].sameBits(expected[i])) << run.def.name << " " << what << " output " << i;
  }
  expectSameBitsEverywhere(run, one, what);
}

}  // namespace sluice::devices::cpu
