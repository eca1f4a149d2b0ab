// The tuning table: what is measured for it and what a device takes from it.
#include "sluice/devices/cpu/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/one_op.h"

namespace sluice::devices::cpu {
namespace {

using device::KernelCall;
using testing::Case;
using testing::convCases;
using testing::OneOp;
using testing::product;

TEST(CpuTuning, WritesOnlyEntriesThatADeviceAccepts) {
  std::vector<KernelCall> calls;
  for (const Case& c : convCases({{4, 16, 8, 8}, {16, 16, 3, 3}})) {
    calls.push_back(OneOp(c.def, c.attrs, c.inputs, 1).call());
  }
  const Case wide = product({64, 400}, {400, 400});
  calls.push_back(OneOp(wide.def, wide.attrs, wide.inputs, 1).call());
  calls.push_back(calls.back());
  const Case other = product({2, 3}, {3, 4}, false, false, DType::F64);
  calls.push_back(OneOp(other.def, other.attrs, other.inputs, 1).call());
  std::vector<std::string> keys;
  const std::string text = tune(calls, [&](std::string_view key) { keys.emplace_back(key); });
  const std::vector<std::string> expected = {"conv/n4g1c16o16i8x8k3x3s1x1d1x1p0x0q0x0",
                                             "conv_grad_input/n4g1c16o16i8x8k3x3s1x1d1x1p0x0q0x0",
                                             "conv_grad_weight/n4g1c16o16i8x8k3x3s1x1d1x1p0x0q0x0",
                                             "matmul/f32/1x64x400x400/nn"};
  EXPECT_EQ(keys, expected);
  const device::Tuning table = device::parseTuning(text);
  const auto tuned = makeCpuDevice({.tuning = table});
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto entry = table.find(keys[i]);
    if (entry != table.end()) {
      EXPECT_EQ(tuned->kernels().choose(calls[i].view()).config, entry->second);
    }
  }
}

TEST(CpuDevice, NamesTheScopeOfItsBits) {
  EXPECT_THAT(makeCpuDevice()->info().description, ::testing::HasSubstr("oneDNN "));
}

}  // namespace
}  // namespace sluice::devices::cpu
