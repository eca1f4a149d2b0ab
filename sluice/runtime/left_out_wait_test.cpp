// What happens to a Program that lacks a wait: far devices which check their work find it whenever
// the verifier says that it is needed, and never otherwise. Two routes that share no code.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/far/far_device.h"
#include "sluice/devices/far/order_check.h"
#include "sluice/program/verify.h"
#include "tests/support/device_group.h"
#include "tests/support/staged_models.h"

namespace sluice::runtime {
namespace {

using devices::far::HostWaits;
using devices::far::OrderCheck;
using program::Program;
using program::Task;
using schedule::PipelineKind;
using sluice::testing::Chain;
using sluice::testing::chainModel;
using sluice::testing::ChainOptions;
using sluice::testing::ChainRun;
using sluice::testing::DeviceGroup;
using sluice::testing::inputsOf;
using ::testing::HasSubstr;

constexpr std::int64_t kRounds = 4;

/// Far devices with one check, made anew for each program: one that fails leaves its state torn.
struct CheckedGroup {
  std::shared_ptr<OrderCheck> check = std::make_shared<OrderCheck>(HostWaits::Ignore);
  DeviceGroup group = DeviceGroup(devicesWith(check));

 private:
  static std::vector<std::unique_ptr<device::Device>> devicesWith(
      const std::shared_ptr<OrderCheck>& check) {
    std::vector<std::unique_ptr<device::Device>> made;
    for (int d = 0; d < 3; ++d) {
      made.push_back(devices::far::makeFarDevice({.index = d, .orderCheck = check}));
    }
    return made;
  }
};

struct Case {
  std::string name;
  ChainOptions model;
  ChainRun run;
};

/// What the devices say about a program; empty: nothing.
std::string saidByDevices(const Case& c, const Chain& chain) {
  CheckedGroup checked;
  try {
    const auto loaded = checked.group.load(chain);
    checked.group.step(*loaded, inputsOf(chain.graph, kRounds * c.run.microBatches));
  } catch (const InternalError& error) {
    EXPECT_THAT(error.message(), HasSubstr("nothing puts the two in order"));
    return error.message();
  }
  return "";
}

std::string saidByVerifier(const Program& program) {
  try {
    program::verify(program);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

class LeftOutWait : public ::testing::TestWithParam<Case> {};

TEST_P(LeftOutWait, IsFoundByTheDevicesIfAndOnlyIfTheVerifierRefusesIt) {
  const Case& c = GetParam();
  const Chain whole = CheckedGroup().group.lower(chainModel(c.model), c.run);
  ASSERT_EQ(saidByVerifier(whole.program), "");
  ASSERT_EQ(saidByDevices(c, whole), "");
  int needed = 0;
  for (std::size_t l = 0; l < whole.program.lanes.size(); ++l) {
    for (std::size_t t = 0; t < whole.program.lanes[l].tasks.size(); ++t) {
      for (std::int32_t w = 0; w < whole.program.lanes[l].tasks[t].numWaits; ++w) {
        Chain broken = whole;
        Task& task = broken.program.lanes[l].tasks[t];
        const auto first = broken.program.waits.begin() + task.firstWait;
        std::swap(first[w], first[task.numWaits - 1]);
        --task.numWaits;
        const std::string refused = saidByVerifier(broken.program);
        const std::string found = saidByDevices(c, broken);
        EXPECT_EQ(refused.empty(), found.empty())
            << program::name(whole.program.lanes[l].kind) << " lane " << l << ", task " << t
            << ", wait " << w << "\nverifier: " << refused << "\ndevices: " << found;
        needed += refused.empty() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(needed, 5) << "a program with hardly a wait shows nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Programs,
    LeftOutWait,
    ::testing::Values(Case{"Inference", {.blocks = 3, .training = false}, {{0, 1, 2}, 2}},
                      Case{"Training", {.blocks = 3}, {{0, 1, 2}, 3}},
                      Case{"Skip", {.blocks = 3, .skip = true}, {{0, 1, 2}, 2}},
                      Case{"TiedAndClipped",
                           {.blocks = 3, .tied = true, .clipped = true},
                           {{0, 1, 2}, 2, PipelineKind::Grouped}}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace sluice::runtime
