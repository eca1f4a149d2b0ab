// Every strategy on devices whose memory the host cannot read leaves the bits that it leaves on CPU
// devices, alone and mixed with them.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/remote_support.h"
#include "tests/e2e/strategy_cases.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::differenceBetweenRounds;
using ::testing::HasSubstr;
using testing::kUpdates;
using ::testing::Not;
using testing::onOneDevice;
using testing::ResidualMlp;
using testing::StrategyCase;
using testing::strategyCases;
using testing::threeStages;
using testing::train;
using testing::trained;

class OnFarDevices : public ::testing::TestWithParam<StrategyCase> {};

TEST_P(OnFarDevices, GivesTheBitsOfCpuDevices) {
  for (const char* devices : {"far", "cpu,far", "far,cpu"}) {
    SCOPED_TRACE(devices);
    Options cpu = onOneDevice();
    GetParam().set(cpu.device("cpu"));
    Options far = onOneDevice();
    GetParam().set(far.device(devices));
    EXPECT_EQ(differenceBetweenRounds(trained<BlockedCnn>(cpu), trained<BlockedCnn>(far)), "");
    far.deviceIterations(kUpdates);
    EXPECT_EQ(differenceBetweenRounds(trained<ResidualMlp>(cpu), trained<ResidualMlp>(far)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix,
                         OnFarDevices,
                         ::testing::ValuesIn(strategyCases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(FarDevices, StreamTheirStateThroughFiles) {
  Options cpu = onOneDevice();
  cpu.device("cpu").setExecutionStrategy(
      SerialPhasedExecution(std::vector<Phase>{"b0", "b1", "b2", "b3", "b4"}));
  Options far = cpu.clone();
  const testing::TempFolder folder;
  far.device("far").remoteMemory((folder / "remote").string());
  EXPECT_EQ(
      differenceBetweenRounds(train<BlockedGpt>(cpu, kUpdates), train<BlockedGpt>(far, kUpdates)),
      "");
}

TEST(FarDevices, LeaveToTheHostWhatOnlyItCanDo) {
  const auto [expected, plan] = testing::withHostOp("cpu");
  const auto [y, farPlan] = testing::withHostOp("far");
  EXPECT_TRUE(y.sameBits(expected));
  EXPECT_THAT(plan, Not(HasSubstr("runs on the host")));
  EXPECT_THAT(farPlan,
              AllOf(HasSubstr("host_call"), HasSubstr("runs on the host"), HasSubstr("32 B")));
}

TEST(FarDevices, AreCountedAndNamed) {
  testing::Mlp net;
  Options options;
  options.device("far");
  auto model = trainingModel(net, options, optim::SGD(0.1));
  model.run(testing::makeInputs(testing::Mlp::inputs(), 0, 1));
  EXPECT_EQ(model.session().device().info().kind, "far");
  EXPECT_GT(model.program().devices[0].stagingBytes, 0U);
  EXPECT_THAT(program::print(model.program()), HasSubstr("staging on the host"));
  // Another model of the module must be on the same devices.
  EXPECT_THAT(testing::messageOf([&] { inferenceModel(net, Options().device("cpu")); }),
              AllOf(HasSubstr("'far'"), HasSubstr("'cpu'")));
}

TEST(FarDevices, OfAListThatIsTooShortAreRefused) {
  Options options = onOneDevice();
  options.device("far*2").setExecutionStrategy(PipelinedExecution(threeStages()));
  EXPECT_THAT(testing::messageOf([&] { train<BlockedCnn>(options, 1); }),
              AllOf(HasSubstr("at least 3 devices"), HasSubstr("names 2")));
  EXPECT_THAT(testing::messageOf([] { Options().device("gpu"); }), HasSubstr("cpu, far"));
}

}  // namespace
}  // namespace sluice
