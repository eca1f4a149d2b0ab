// What explain() says of the balance of a pipeline, and that the advice behind it is true of the
// schedules.
#include "sluice/api/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/schedule/pipeline.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using schedule::PipelineKind;
using ::testing::HasSubstr;

TEST(ExplainBalance, NamesTheBusiestDeviceAndEvenShares) {
  // Device 0 has stages 0 and 2: 3 + 2 us, device 1 has 4 us.
  const std::vector<parallel::StageWork> work = {
      {.forward = 1000, .backwardInput = 1500, .backwardWeight = 500},
      {.forward = 4000},
      {.forward = 500, .backwardInput = 1500}};
  EXPECT_EQ(explainBalance(work, std::vector<std::int32_t>{0, 1, 0}),
            "Balance: device 0 has the most work and sets the time of a micro-batch, 5.000 us; "
            "even shares are 4.500 us, so at most 90 % of the devices' time is used\n");
  EXPECT_EQ(explainBalance(work, std::vector<std::int32_t>{0, 0, 0}), "");
}

TEST(ExplainBalance, IsPartOfTheExplanationOfAPipeline) {
  struct Net : nn::Module {
    nn::Linear a{*this, "a", 4, 64};
    nn::Linear b{*this, "b", 64, 64};
    nn::Tensor forward(nn::Tensor x) {
      {
        const nn::Block block("b0");
        x = a(x);
      }
      const nn::Block block("b1");
      return b(x);
    }
  };
  const auto explained = [](const Strategy& strategy) {
    Net net;
    auto model = inferenceModel(net, Options().deviceIterations(2).setExecutionStrategy(strategy));
    model(HostTensor(DType::F32, Shape{4, 4}));
    return model.explain();
  };
  EXPECT_THAT(explained(PipelinedExecution{"b0", "b1"}),
              HasSubstr("Balance: device 1 has the most work"));
  EXPECT_THAT(explained(ShardedExecution{"b0", "b1"}), ::testing::Not(HasSubstr("Balance")));
}

std::int64_t makespan(const std::vector<std::int64_t>& forward, std::int32_t microBatches) {
  schedule::PipelineProblem problem{.microBatches = microBatches, .training = true};
  for (std::size_t s = 0; s < forward.size(); ++s) {
    problem.deviceOfStage.push_back(static_cast<std::int32_t>(s));
    problem.costs.push_back(
        {.forward = forward[s], .backwardInput = forward[s], .backwardWeight = forward[s]});
    problem.bytes.push_back({});
  }
  return schedule::schedulePipeline(PipelineKind::OneForwardOneBackward, problem).makespan;
}

TEST(Advice, TheLongestStageSetsTheTimeOfAMicroBatch) {
  // Each micro-batch more costs what it costs on the busiest device, whatever the others have.
  for (const std::vector<std::int64_t>& forward :
       {std::vector<std::int64_t>{2, 5, 3}, {5, 1, 1}, {1, 1, 5}}) {
    EXPECT_EQ(makespan(forward, 41) - makespan(forward, 40), 3 * 5);
  }
  // The same work in even stages.
  EXPECT_EQ(makespan({4, 3, 3}, 41) - makespan({4, 3, 3}, 40), 3 * 4);
}

TEST(Advice, MoreDevicesSpendMoreTimeFillingAndDraining) {
  // 12 units of forward work, cut evenly: all devices together are idle for longer the more
  // there are, and more micro-batches make it less.
  const auto idleShare = [](std::int64_t devices, std::int32_t microBatches) {
    const std::vector<std::int64_t> forward(static_cast<std::size_t>(devices), 12 / devices);
    const double span = static_cast<double>(makespan(forward, microBatches));
    return 1 - 36.0 * microBatches / (span * static_cast<double>(devices));
  };
  EXPECT_EQ(idleShare(1, 8), 0);
  EXPECT_DOUBLE_EQ(idleShare(2, 8), 1.0 / 9);  // one micro-batch of nine on each device
  EXPECT_DOUBLE_EQ(idleShare(4, 8), 3.0 / 11);
  EXPECT_DOUBLE_EQ(idleShare(4, 80), 3.0 / 83);
}

}  // namespace
}  // namespace sluice
