// A GPT with enough positions for attention by blocks and enough tokens for the cross entropy that
// keeps no probabilities: the ops stay whole, and every strategy leaves the same bits.
#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "tests/e2e/networks.h"
#include "tests/support/transformer_layer.h"

namespace sluice {
namespace {

using testing::Bits;
using testing::difference;
using testing::train;

constexpr std::int64_t kUpdates = 2;

struct LongGpt : nn::Module {
  static constexpr std::int64_t kTokens = 1100;
  static constexpr std::int64_t kPositions = 200;
  static constexpr testing::TransformerShape kLayer{.width = 16, .heads = 2, .hidden = 16};

  nn::Embedding tokens{*this, "tokens", kTokens, kLayer.width};
  testing::TransformerLayer layer1{*this, "layer1", kLayer};
  testing::TransformerLayer layer2{*this, "layer2", kLayer};
  nn::Linear head{*this, "head", kLayer.width, kTokens};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor ids, nn::Tensor targets) {
    nn::Tensor x;
    {
      const nn::Block block("b0");
      x = layer1(tokens(ids));
    }
    {
      const nn::Block block("b1");
      x = layer2(x);
    }
    const nn::Block block("b2");
    const nn::Tensor logits = nn::reshape(head(x), {-1, kTokens});
    return {logits, nn::crossEntropy(logits, nn::flatten(targets))};
  }

  static std::vector<TensorType> inputs() {
    return {{DType::I64, Shape{1, kPositions}}, {DType::I64, Shape{1, kPositions}}};
  }
};

Options withStrategy(const parallel::Strategy& strategy, int threads) {
  Options options;
  options.training.gradientAccumulation(4);
  options.setExecutionStrategy(strategy);
  options.threads(threads);
  return options;
}

const parallel::Strategy kOneDevice =
    parallel::ShardedExecution({parallel::Stage("b0", "b1", "b2")});

/// How many kernels of all segments have this name.
std::int64_t countCalls(const program::Program& program, std::string_view op) {
  std::int64_t count = 0;
  for (const program::Segment& segment : program.segments) {
    count += std::ranges::count_if(
        segment.calls, [&](const device::KernelCall& call) { return call.def->name == op; });
  }
  return count;
}

TEST(LongGpt, KeepsAttentionAndCrossEntropyWhole) {
  LongGpt net;
  auto model = trainingModel(net, withStrategy(kOneDevice, 1), optim::AdamW(0.01));
  model.compile(testing::makeInputs(LongGpt::inputs(), 0, model.microBatchesPerStep()));
  const program::Program& program = model.program();
  EXPECT_EQ(countCalls(program, "scaled_dot_product_attention"), 2);
  EXPECT_EQ(countCalls(program, "scaled_dot_product_attention_grad"), 2);
  EXPECT_EQ(countCalls(program, "cross_entropy"), 1);
  EXPECT_EQ(countCalls(program, "cross_entropy_grad"), 1);
  EXPECT_EQ(countCalls(program, "softmax") + countCalls(program, "log_softmax"), 0);
}

TEST(LongGpt, LeavesTheSameBitsUnderEveryStrategyAndNumberOfThreads) {
  const Bits expected = train<LongGpt>(withStrategy(kOneDevice, 1), kUpdates);
  EXPECT_EQ(difference(expected, train<LongGpt>(withStrategy(kOneDevice, 3), kUpdates)), "");
  const parallel::Strategy pipeline = parallel::PipelinedExecution({"b0", "b1", "b2"});
  EXPECT_EQ(difference(expected, train<LongGpt>(withStrategy(pipeline, 2), kUpdates)), "");
  Options recomputing = withStrategy(pipeline, 1);
  recomputing.recomputation(Recomputation::Pipeline);
  EXPECT_EQ(difference(expected, train<LongGpt>(recomputing, kUpdates)), "");
}

}  // namespace
}  // namespace sluice
