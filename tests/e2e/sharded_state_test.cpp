// Replicas that share the optimizer's state: each keeps a part and computes the part of the update
// that belongs to it, with the bits of replicas that keep all.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/program/program.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;
using parallel::SerialPhasedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using ::testing::AllOf;
using testing::Bits;
using testing::BlockedCnn;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::makeInputs;
using testing::ResidualMlp;

constexpr std::int64_t kShardedUpdates = 3;

Options replicated(std::int64_t replicas) {
  Options options;
  options.replicationFactor(replicas);
  options.training.gradientAccumulation(4);
  options.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")}));
  return options;
}

Options sharded(std::int64_t replicas, std::optional<bool> onChip = std::nullopt) {
  Options options = replicated(replicas);
  options.tensorLocations.setOptimizerLocation(TensorLocationSettings()
                                                   .useOnChipStorage(onChip)
                                                   .useReplicatedTensorSharding(true)
                                                   .minElementsForReplicatedTensorSharding(1));
  return options;
}

/// Weights in parts, and the optimizer's state, too.
Options shardedWeights(std::int64_t replicas,
                       std::optional<bool> onChip = std::nullopt,
                       bool state = true) {
  Options options = state ? sharded(replicas, onChip) : replicated(replicas);
  options.tensorLocations.setWeightLocation(TensorLocationSettings()
                                                .useOnChipStorage(onChip)
                                                .useReplicatedTensorSharding(true)
                                                .minElementsForReplicatedTensorSharding(1));
  return options;
}

/// All variables but accumulators, which hold nothing between updates.
template <class Net>
Bits trained(const Options& options, const optim::Optimizer& optimizer) {
  Net net;
  auto model = trainingModel(net, options, optimizer);
  const std::int64_t perCall = model.microBatchesPerStep() * options.replicationFactor();
  for (std::int64_t call = 0; call < kShardedUpdates; ++call) {
    model.run(makeInputs(Net::inputs(), call * perCall, perCall));
  }
  Session& session = model.session();
  Bits bits;
  for (const program::PlacedVariable& placed : session.state().plan().variables()) {
    if (placed.variable.role != ir::VariableRole::Accumulator) {
      bits[placed.variable.name] = session.read(placed.variable.name).hash();
    }
    if (placed.variable.role == ir::VariableRole::Weight) {
      for (std::size_t r = 1; r < session.numReplicas(); ++r) {
        EXPECT_EQ(session.read(placed.variable.name, r).hash(), bits[placed.variable.name]);
      }
    }
  }
  return bits;
}

std::vector<std::unique_ptr<optim::Optimizer>> shardedRules() {
  std::vector<std::unique_ptr<optim::Optimizer>> all;
  all.push_back(std::make_unique<optim::SGD>(
      optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .weightDecay = 0.01, .nesterov = true}));
  all.push_back(std::make_unique<optim::AdamW>(
      optim::AdamOptions{.lr = 0.01, .lossScaling = 64, .maxGradNorm = 0.5}));
  all.push_back(std::make_unique<optim::RMSprop>(
      optim::RmsPropOptions{.eps = 1e-4, .momentum = 0.9, .centered = true}));
  all.push_back(std::make_unique<optim::LAMB>(optim::LambOptions{.lr = 0.01}));
  return all;
}

TEST(ShardedState, GivesTheBitsOfWholeState) {
  for (const auto& rule : shardedRules()) {
    for (const std::int64_t replicas : {2, 3}) {
      SCOPED_TRACE(std::string(rule->name()));
      const Bits expected = trained<ResidualMlp>(replicated(replicas), *rule);
      EXPECT_EQ(testing::difference(expected, trained<ResidualMlp>(sharded(replicas), *rule)), "");
      EXPECT_EQ(
          testing::difference(expected, trained<ResidualMlp>(sharded(replicas, false), *rule)), "");
    }
  }
}

TEST(ShardedState, GivesTheSameBitsUnderEveryStrategy) {
  const optim::AdamW rule(optim::AdamOptions{.lr = 0.01});
  const Bits expected = trained<BlockedCnn>(replicated(2), rule);
  Options pipelined = sharded(2);
  pipelined.setExecutionStrategy(PipelinedExecution{Stage("b0", "b1"), "b2", Stage("b3", "b4")});
  EXPECT_EQ(testing::difference(expected, trained<BlockedCnn>(pipelined, rule)), "");
  Options cut = sharded(2, false);
  cut.setExecutionStrategy(ShardedExecution{Stage("b0", "b1", "b2"), Stage("b3", "b4")});
  EXPECT_EQ(testing::difference(expected, trained<BlockedCnn>(cut, rule)), "");
  Options phased = sharded(2);
  phased.setExecutionStrategy(SerialPhasedExecution{"b0", "b1", "b2", "b3", "b4"});
  EXPECT_EQ(testing::difference(expected, trained<BlockedCnn>(phased, rule)), "");
}

TEST(ShardedState, TakesAShareOfTheMemory) {
  const auto planOf = [](const Options& options) {
    ResidualMlp net;
    auto model = trainingModel(net, options, optim::AdamW(0.01));
    model.compile(makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * 3));
    return model.session().state().plan();
  };
  const program::StatePlan whole = planOf(replicated(3));
  const program::StatePlan parts = planOf(sharded(3));
  std::int64_t shared = 0;
  for (const program::PlacedVariable& placed : whole.variables()) {
    const program::PlacedVariable* part = parts.find(placed.variable.name);
    ASSERT_NE(part, nullptr);
    if (placed.variable.role == ir::VariableRole::OptimizerState &&
        placed.variable.type.shape.rank() > 0) {
      EXPECT_EQ(part->variable.type.shape, Shape{(placed.variable.type.shape.elements() + 2) / 3});
      ASSERT_TRUE(part->variable.split);
      EXPECT_EQ(part->variable.split->whole, placed.variable.type.shape);
      ++shared;
    } else {
      EXPECT_EQ(part->variable.type, placed.variable.type);
    }
  }
  EXPECT_GT(shared, 10);
}

TEST(ShardedState, IsExplained) {
  struct Wide : nn::Module {
    nn::Linear fc{*this, "fc", 64, 96};
    nn::Tensor forward(nn::Tensor x) {
      const nn::Block block("b0");
      return nn::mean(nn::square(fc(x)));
    }
  };
  const auto explained = [](Options options) {
    Wide net;
    options.setExecutionStrategy(PipelinedExecution({Stage("b0")}));
    auto model = trainingModel(net, options, optim::AdamW(0.01));
    model.compile(std::vector<HostTensor>{HostTensor(DType::F32, Shape{12, 64})});
    return model.explain();
  };
  // 64 x 96 floats are 24 KiB, and 96 are 384 bytes; the four moments of both are in three parts.
  const std::string text = explained(sharded(3));
  EXPECT_THAT(text,
              AllOf(HasSubstr("Variables of which a replica keeps a part\n"),
                    HasSubstr("  fc.weight.exp_avg: 8192 B of 24.0 KiB\n"),
                    HasSubstr("  fc.bias.exp_avg_sq: 128 B of 384 B\n"),
                    HasSubstr("  all 4: 16.2 KiB of 48.8 KiB\n")));
  EXPECT_THAT(text, AllOf(HasSubstr(" of state, "), HasSubstr("KiB of activations and scratch")));
  EXPECT_THAT(explained(replicated(3)), ::testing::Not(HasSubstr("keeps a part")));
}

TEST(ShardedWeights, GiveTheBitsOfWholeOnes) {
  for (const auto& rule : shardedRules()) {
    for (const std::int64_t replicas : {2, 3}) {
      SCOPED_TRACE(std::string(rule->name()));
      const Bits expected = trained<ResidualMlp>(replicated(replicas), *rule);
      for (const Options& options : {shardedWeights(replicas),
                                     shardedWeights(replicas, false),
                                     shardedWeights(replicas, std::nullopt, false)}) {
        EXPECT_EQ(testing::difference(expected, trained<ResidualMlp>(options, *rule)), "");
      }
    }
  }
}

TEST(ShardedWeights, GiveTheSameBitsUnderEveryStrategy) {
  const optim::AdamW rule(optim::AdamOptions{.lr = 0.01});
  const Bits expected = trained<BlockedCnn>(replicated(2), rule);
  const std::vector<Stage> stages = {Stage("b0", "b1"), "b2", Stage("b3", "b4")};
  const std::vector<parallel::Phase> phases = {"b0", "b1", "b2", "b3", "b4"};
  for (const Strategy& strategy : {Strategy(PipelinedExecution(stages)),
                                   Strategy(PipelinedExecution(stages).schedule("zb-h1")),
                                   Strategy(ShardedExecution(stages)),
                                   Strategy(SerialPhasedExecution(phases)),
                                   Strategy(parallel::ParallelPhasedExecution(phases))}) {
    for (const Recomputation recomputation : {Recomputation::None, Recomputation::All}) {
      Options options = shardedWeights(2);
      options.setExecutionStrategy(strategy).recomputation(recomputation);
      SCOPED_TRACE(strategy.str());
      EXPECT_EQ(testing::difference(expected, trained<BlockedCnn>(options, rule)), "");
    }
  }
}

/// A replica keeps its part; under phased execution it has whole weights of a few phases only, and
/// loads no more than its part of them.
TEST(ShardedWeights, TakeAShareOfTheMemory) {
  const auto programOf = [](Options options) {
    options.setExecutionStrategy(SerialPhasedExecution{"b0", "b1", "b2", "b3", "b4"});
    ResidualMlp net;
    auto model = trainingModel(net, options, optim::SGD(0.01));
    model.compile(makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * 3));
    for (const program::PlacedVariable& placed : model.session().state().plan().variables()) {
      if (placed.variable.role == ir::VariableRole::Weight) {
        EXPECT_EQ(placed.variable.split.has_value(), options.tensorLocations.plan().weight.sharded);
      }
    }
    return model.program();
  };
  const program::Program whole = programOf(replicated(3));
  const program::Program parts = programOf(shardedWeights(3));
  EXPECT_LT(parts.remote.stateBytes, whole.remote.stateBytes * 3 / 4);
  const auto longestFetch = [](const program::Program& program) {
    std::size_t bytes = 0;
    for (const program::Transfer& transfer : program.transfers) {
      const program::Buffer& from = program.buffer(transfer.from);
      bytes = from.isRemote() && from.region == program::Region::State
                  ? std::max(bytes, transfer.bytes)
                  : bytes;
    }
    return bytes;
  };
  EXPECT_LE(longestFetch(parts), longestFetch(whole) / 3 + 64);
}

TEST(ShardedWeights, AreReadByInferenceOfAsManyReplicas) {
  ResidualMlp net;
  auto model = trainingModel(net, shardedWeights(2), optim::SGD(0.05));
  ResidualMlp wholeNet;
  auto whole = trainingModel(wholeNet, replicated(2), optim::SGD(0.05));
  const auto inputs =
      makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * std::int64_t{2});
  model.run(inputs);
  whole.run(inputs);
  Options options = replicated(2);
  options.training.gradientAccumulation(1);
  auto inference = inferenceModel(net, options);
  auto reference = inferenceModel(wholeNet, options);
  const auto few = makeInputs(ResidualMlp::inputs(), 0, 2);
  EXPECT_EQ(inference.run(few)[0].hash(), reference.run(few)[0].hash());
  auto single = inferenceModel(net, options.clone().replicationFactor(1));
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { single.run(few); }),
              AllOf(HasSubstr("in parts by 2 replicas"), HasSubstr("replicationFactor(2)")));
}

TEST(ShardedWeights, StayWholeWhereAnotherModelHasThemWhole) {
  ResidualMlp net;
  Options plain = replicated(2);
  plain.training.gradientAccumulation(1);
  auto inference = inferenceModel(net, plain);
  inference.run(makeInputs(ResidualMlp::inputs(), 0, 2));
  auto model = trainingModel(net, shardedWeights(2), optim::SGD(0.05));
  model.compile(makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * 2));
  EXPECT_THAT(model.compiled().warnings, Contains(HasSubstr("stays whole: another model")));
  for (const program::PlacedVariable& placed : model.session().state().plan().variables()) {
    EXPECT_FALSE(placed.variable.role == ir::VariableRole::Weight && placed.variable.split);
  }
}

TEST(ShardedWeights, DoNotGoWithContinuousUpdates) {
  ResidualMlp net;
  Options options = shardedWeights(2, std::nullopt, false);
  options.training.gradientAccumulation(1);
  options.setExecutionStrategy(PipelinedExecution{Stage("b0", "b1"), Stage("b2", "b3", "b4")})
      .continuousWeightUpdates(true);
  auto model = trainingModel(net, options, optim::SGD(0.05));
  EXPECT_THAT(testing::messageOf<Unsupported>([&] {
                model.run(makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * 2));
              }),
              HasSubstr("continuousWeightUpdates"));
}

/// The options with sharded accumulators.
Options withSharedAccumulators(Options options, std::optional<bool> onChip = std::nullopt) {
  options.tensorLocations.setAccumulatorLocation(TensorLocationSettings()
                                                     .useOnChipStorage(onChip)
                                                     .useReplicatedTensorSharding(true)
                                                     .minElementsForReplicatedTensorSharding(1));
  return options;
}

/// The weight after one update of SGD with rate 1, starting at 0. It is minus the sum of the
/// gradients of two micro-batches in two replicas, in the order that the options ask for.
double weightAfterTwoOfTwo(bool shared, const std::vector<double>& gradients) {
  struct Product : nn::Module {
    nn::Parameter& w = addParameter("w", {DType::F32, Shape{3}}, ir::Initializer::constant(0));
    nn::Tensor forward(const nn::Tensor& x) { return nn::sum(x * w); }
  };
  Options options;
  options.replicationFactor(2);
  options.training.gradientAccumulation(2).accumulationReduction(Reduction::Sum);
  Product net;
  auto model = trainingModel(net,
                             shared ? withSharedAccumulators(options) : options,
                             optim::SGD(optim::SgdOptions{.lr = 1}));
  HostTensor x(DType::F32, Shape{4, 3});
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t column = 0; column < 3; ++column) {
      x.set(row * 3 + column, gradients[static_cast<std::size_t>(row)]);
    }
  }
  model.run({x});
  const HostTensor w = model.session().read("w");
  EXPECT_EQ(w.at(0), w.at(1));
  EXPECT_EQ(w.at(0), w.at(2)) << "which is in the padded part of the second replica";
  EXPECT_EQ(model.session().read("w", 1).hash(), w.hash());
  return w.at(0);
}

TEST(ShardedAccumulators, AddReplicasBeforeMicroBatches) {
  // Rows are micro-batch 0 of both replicas, then micro-batch 1.
  EXPECT_EQ(weightAfterTwoOfTwo(false, {1, 2, 4, 8}), -15);
  EXPECT_EQ(weightAfterTwoOfTwo(true, {1, 2, 4, 8}), -15);
  // 2^24 + 1 is 2^24 in float32: (2^24 + 1) + (-2^24 + 1) against (2^24 - 2^24) + (1 + 1).
  const double large = 16777216;
  EXPECT_EQ(weightAfterTwoOfTwo(false, {large, -large, 1, 1}), -1);
  EXPECT_EQ(weightAfterTwoOfTwo(true, {large, -large, 1, 1}), -2);
}

TEST(ShardedAccumulators, GiveTheSameBitsWhateverElseIsInParts) {
  for (const auto& rule : shardedRules()) {
    for (const std::int64_t replicas : {2, 3}) {
      SCOPED_TRACE(std::string(rule->name()));
      const Bits expected =
          trained<ResidualMlp>(withSharedAccumulators(replicated(replicas)), *rule);
      for (const Options& options : {withSharedAccumulators(replicated(replicas), false),
                                     withSharedAccumulators(sharded(replicas)),
                                     withSharedAccumulators(sharded(replicas, false), false),
                                     withSharedAccumulators(shardedWeights(replicas))}) {
        EXPECT_EQ(testing::difference(expected, trained<ResidualMlp>(options, *rule)), "");
      }
    }
  }
}

TEST(ShardedAccumulators, GiveTheSameBitsUnderEveryStrategy) {
  const optim::AdamW rule(optim::AdamOptions{.lr = 0.01});
  const Bits expected = trained<BlockedCnn>(withSharedAccumulators(replicated(2)), rule);
  const std::vector<Stage> stages = {Stage("b0", "b1"), "b2", Stage("b3", "b4")};
  const std::vector<parallel::Phase> phases = {"b0", "b1", "b2", "b3", "b4"};
  for (const Strategy& strategy : {Strategy(PipelinedExecution(stages)),
                                   Strategy(PipelinedExecution(stages).schedule("zb-h1")),
                                   Strategy(PipelinedExecution(stages).schedule("gpipe")),
                                   Strategy(ShardedExecution(stages)),
                                   Strategy(SerialPhasedExecution(phases)),
                                   Strategy(parallel::ParallelPhasedExecution(phases))}) {
    Options options = withSharedAccumulators(replicated(2));
    options.setExecutionStrategy(strategy);
    SCOPED_TRACE(strategy.str());
    EXPECT_EQ(testing::difference(expected, trained<BlockedCnn>(options, rule)), "");
  }
}

TEST(ShardedAccumulators, TakeAShareOfTheMemory) {
  const auto planOf = [](const Options& options) {
    ResidualMlp net;
    auto model = trainingModel(net, options, optim::AdamW(0.01));
    model.compile(makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * 3));
    return model.session().state().plan();
  };
  const program::StatePlan whole = planOf(replicated(3));
  const program::StatePlan parts = planOf(withSharedAccumulators(replicated(3)));
  std::int64_t shared = 0;
  for (const program::PlacedVariable& placed : whole.variables()) {
    const program::PlacedVariable* part = parts.find(placed.variable.name);
    ASSERT_NE(part, nullptr);
    const bool accumulates = placed.variable.role == ir::VariableRole::Accumulator;
    EXPECT_EQ(part->variable.split.has_value(), accumulates) << placed.variable.name;
    if (accumulates) {
      EXPECT_EQ(part->variable.type.shape, Shape{(placed.variable.type.shape.elements() + 2) / 3});
      ++shared;
    }
  }
  EXPECT_GT(shared, 5);
  EXPECT_LT(parts.bytes(0), whole.bytes(0));
}

TEST(ShardedAccumulators, AreNotThoseOfTheCombinedSgd) {
  ResidualMlp net;
  auto model = trainingModel(
      net,
      withSharedAccumulators(replicated(2)),
      optim::SGD(optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .useCombinedAccum = true}));
  EXPECT_THAT(
      testing::messageOf<Unsupported>([&] {
        model.compile(makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * 2));
      }),
      AllOf(HasSubstr("accumulators"), HasSubstr("separate form")));
}

TEST(ShardedState, SmallTensorsAreWhole) {
  Options options = replicated(2);
  options.tensorLocations.setOptimizerLocation(
      TensorLocationSettings().useReplicatedTensorSharding(true));
  ResidualMlp net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  model.compile(makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * 2));
  for (const program::PlacedVariable& placed : model.session().state().plan().variables()) {
    EXPECT_FALSE(placed.variable.split) << placed.variable.name;  // all have fewer than 8192
  }
}

TEST(ShardedState, IsReadAndWrittenAsAWhole) {
  ResidualMlp net;
  auto model = trainingModel(net, sharded(3), optim::AdamW(0.01));
  model.run(makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * 3));
  Session& session = model.session();
  std::string name;
  Shape whole;
  for (const program::PlacedVariable& placed : session.state().plan().variables()) {
    if (placed.variable.split && placed.variable.split->whole.elements() % 3 != 0) {
      name = placed.variable.name;
      whole = placed.variable.split->whole;
    }
  }
  ASSERT_FALSE(name.empty());
  HostTensor value(TensorType{DType::F32, whole});
  for (std::int64_t i = 0; i < whole.elements(); ++i) {
    value.set(i, static_cast<double>(i) + 1);
  }
  session.write(name, value);
  EXPECT_EQ(session.read(name).hash(), value.hash());
  EXPECT_THROW(session.write(name, HostTensor(DType::F32, Shape{1})), InvalidArgument);
}

}  // namespace
}  // namespace sluice
