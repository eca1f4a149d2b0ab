// The tuning table: what is measured for it and what a device takes from it.
#include "sluice/devices/cpu/tune.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/devices/cpu/kernels/tuning_options.h"
#include "sluice/ir/parser.h"
#include "sluice/ops/fused.h"
#include "sluice/ops/op_list.h"
#include "tests/support/one_op.h"

namespace sluice::devices::cpu {
namespace {

using device::KernelCall;
using testing::Case;
using testing::check;
using testing::convCases;
using testing::ConvShape;
using testing::hasAvx512;
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

bool offers(const Case& c, const std::string& value) {
  const auto options = tuningOptions(OneOp(c.def, c.attrs, c.inputs, 1).call().view());
  return options && std::ranges::find(options->values, value) != options->values.end();
}

TEST(CpuTuning, TriesEveryWayThatCanBeDone) {
  const Case wide = product({64, 400}, {400, 400}, false, true);
  for (const char* value : {"rows 3", "cols 3", "vectors", "panels", "panels packed"}) {
    EXPECT_TRUE(offers(wide, value)) << value;
  }
  for (const char* value : {"rows 3 packed", "cols 3 packed"}) {
    EXPECT_EQ(offers(wide, value), hasAvx512()) << value;
  }
  EXPECT_FALSE(offers(product({4, 64, 64}, {4, 64, 64}), "vectors"));
  const std::vector<Case> cases = convCases({{4, 16, 8, 8}, {16, 16, 3, 3}});
  EXPECT_TRUE(offers(cases[0], "windows"));
  EXPECT_TRUE(offers(cases[1], "windows"));
  EXPECT_TRUE(offers(cases[2], "lines"));
  EXPECT_TRUE(offers(cases[0], "taps"));
  EXPECT_TRUE(offers(cases[1], "taps"));
  EXPECT_FALSE(offers(cases[2], "taps"));
  EXPECT_TRUE(offers(cases[2], "outer"));
  EXPECT_TRUE(offers(cases[2], "columns"));
  const ConvShape padded{{4, 16, 8, 8}, {16, 16, 3, 3}, {{"pads", {1, 1, 1, 1}}}};
  EXPECT_FALSE(offers(convCases(padded)[2], "columns"));
}

/// Tuned values are tried on the shapes they were measured for, so each must be possible there.
TEST(CpuTuning, DevicesTakeEveryValueThatIsTried) {
  std::vector<Case> cases = convCases({{4, 16, 8, 8}, {16, 16, 3, 3}});
  cases.push_back(product({64, 400}, {400, 400}, false, true));
  cases.push_back(product({64, 40}, {40, 400}));
  for (const Case& c : cases) {
    const auto options = tuningOptions(OneOp(c.def, c.attrs, c.inputs, 1).call().view());
    ASSERT_TRUE(options.has_value());
    for (const std::string& value : options->values) {
      SCOPED_TRACE(options->key + " " + value);
      const device::Tuning tuning{{options->key, value}};
      EXPECT_EQ(OneOp(c.def, c.attrs, c.inputs, 1, {}, tuning).choice().config, value);
      check(c, tuning);
    }
  }
}

TEST(CpuTuning, LooksIntoFusedOps) {
  const ir::Graph body = ir::parse(R"(graph "fused" {
    %0 = input() "a" : f32[64, 400]
    %1 = input() "b" : f32[400, 400]
    %2 = matmul(%0, %1) "y" : f32[64, 400]
    %3 = exp(%2) "exp" : f32[64, 400]
    output "out0" = %3
  })",
                                   ops::opSet());
  KernelCall call;
  call.def = &ops::kFused;
  call.attrs = ir::completeAttrs(ops::kFused, {{"body", std::make_shared<const ir::Graph>(body)}});
  call.inputTypes = {{DType::F32, {64, 400}}, {DType::F32, {400, 400}}};
  call.outputTypes = {{DType::F32, {64, 400}}};
  std::vector<std::string> keys;
  tune({&call, 1}, [&](std::string_view key) { keys.emplace_back(key); });
  EXPECT_EQ(keys, std::vector<std::string>{"matmul/f32/1x64x400x400/nn"});
}

TEST(CpuDevice, NamesTheScopeOfItsBits) {
  EXPECT_THAT(makeCpuDevice()->info().description, ::testing::HasSubstr("oneDNN "));
}

}  // namespace
}  // namespace sluice::devices::cpu
