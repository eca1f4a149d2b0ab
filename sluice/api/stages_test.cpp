// Which stages the layers of a model may be in, and the way of values between the stages.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/program/program.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Four layers in four blocks; the last one also reads what the first one made.
struct Skip : nn::Module {
  nn::Linear a{*this, "a", 4, 4};
  nn::Linear b{*this, "b", 4, 4};
  nn::Linear c{*this, "c", 4, 4};
  nn::Linear d{*this, "d", 4, 4};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    const auto in = [](const char* name, auto make) {
      const nn::Block block(name);
      return make();
    };
    const nn::Tensor early = in("b0", [&] { return nn::tanh(a(x)); });
    x = in("b1", [&] { return nn::tanh(b(early)); });
    x = in("b2", [&] { return nn::tanh(c(x)); });
    const nn::Block block("b3");
    x = d(x) + early;
    return {x, nn::mean(x * x)};
  }
};

HostTensor rows() {
  HostTensor x(DType::F32, Shape{16, 4});
  for (std::int64_t i = 0; i < 64; ++i) {
    x.set(i, static_cast<double>((i * 7) % 11) / 11 - 0.4);
  }
  return x;
}

struct Trained {
  std::vector<std::uint64_t> weights;
  /// Pairs of devices between which something is sent for every micro-batch.
  std::set<std::pair<std::int32_t, std::int32_t>> routes;
};

Trained train(const Strategy& strategy, Recomputation recomputation = Recomputation::None) {
  Skip net;
  Options options;
  options.setExecutionStrategy(strategy).recomputation(recomputation).deviceIterations(2);
  options.training.gradientAccumulation(8);
  auto model = trainingModel(net, options, optim::SGD(0.5));
  model(rows());
  Trained result;
  for (const nn::Linear* layer : {&net.a, &net.b, &net.c, &net.d}) {
    result.weights.push_back(layer->weight.value().hash());
  }
  const program::Program& program = model.program();
  for (const program::Transfer& transfer : program.transfers) {
    if (!transfer.oncePerRound) {
      result.routes.emplace(program.buffer(transfer.from).device,
                            program.buffer(transfer.to).device);
    }
  }
  return result;
}

using Routes = std::set<std::pair<std::int32_t, std::int32_t>>;

TEST(Copies, PassThroughEveryStageOfPopartsPipeline) {
  const Trained alone = train(PipelinedExecution{{"b0", "b1", "b2", "b3"}});
  const std::vector<Stage> stages = {"b0", "b1", "b2", "b3"};
  const Routes neighbours = {{0, 1}, {1, 2}, {2, 3}, {3, 2}, {2, 1}, {1, 0}};
  for (const Recomputation recomputation : {Recomputation::None, Recomputation::Pipeline}) {
    const Trained popart = train(PipelinedExecution(stages).schedule("popart"), recomputation);
    EXPECT_EQ(popart.routes, neighbours);
    EXPECT_EQ(popart.weights, alone.weights);
  }
}

TEST(Copies, GoStraightToTheirReaderUnderOtherSchedules) {
  const Trained alone = train(PipelinedExecution{{"b0", "b1", "b2", "b3"}});
  const std::vector<Stage> stages = {"b0", "b1", "b2", "b3"};
  // The gradients of both readers of the first layer are added in stage 1.
  const Routes shortest = {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {3, 1}, {3, 2}, {2, 1}, {1, 0}};
  for (const Strategy& strategy : {Strategy(PipelinedExecution(stages).schedule("1f1b")),
                                   Strategy(PipelinedExecution(stages).schedule("grouped")),
                                   Strategy(ShardedExecution(stages))}) {
    const Trained direct = train(strategy);
    EXPECT_EQ(direct.routes, shortest) << strategy.str();
    EXPECT_EQ(direct.weights, alone.weights);
  }
}

TEST(Layers, MayBeInTheSameOrInNeighbouringStages) {
  const Trained alone = train(PipelinedExecution{{"b0", "b1", "b2", "b3"}});
  // Of three steps from layer to layer, two stay in their stage and one goes to the next.
  for (const Strategy& strategy : {Strategy(PipelinedExecution{{"b0", "b1"}, {"b2", "b3"}}),
                                   Strategy(PipelinedExecution{"b0", {"b1", "b2"}, "b3"}),
                                   Strategy(ShardedExecution{{"b0", "b1", "b2"}, "b3"})}) {
    EXPECT_EQ(train(strategy).weights, alone.weights) << strategy.str();
  }
}

TEST(Layers, MayNotBeInAnEarlierStageThanTheLayerBefore) {
  EXPECT_THAT(messageOf([] {
                train(PipelinedExecution{"b1", "b0", "b2", "b3"});
              }),
              AllOf(HasSubstr("earlier stage"), HasSubstr("stage 0"), HasSubstr("stage 1")));
}

}  // namespace
}  // namespace sluice
