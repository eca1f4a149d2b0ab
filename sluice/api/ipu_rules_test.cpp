// The IPU's own rules through the model API: errors where they are enforced, warnings elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Four linear layers, one per block; two of them may be the same.
struct Tower : nn::Module {
  nn::Linear a{*this, "a", 4, 4};
  nn::Linear b{*this, "b", 4, 4};
  nn::Linear c{*this, "c", 4, 4};
  nn::Linear d{*this, "d", 4, 4};
  bool tied = false;
  int blocks = 4;

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    int next = 0;
    nn::Linear* layers[] = {&a, &b, &c, tied ? &a : &d};
    for (int i = 0; i < blocks; ++i) {
      const nn::Block block("b" + std::to_string(next++));
      x = (*layers[i])(x);
    }
    const nn::Block block("b" + std::to_string(next - 1));
    return {x, nn::mean(x * x)};
  }
};

Options training(std::int64_t accumulation, std::vector<Stage> stages) {
  Options options;
  options.training.gradientAccumulation(accumulation);
  options.setExecutionStrategy(PipelinedExecution(std::move(stages)));
  return options;
}

std::vector<Stage> four() {
  return {"b0", "b1", "b2", "b3"};
}

template <class Model>
void compileRuled(Model& model) {
  model.compile(std::vector{HostTensor(DType::F32, Shape{model.batchLayout().inputFactor(), 4})});
}

std::string trainMessage(Options options, bool tied = false, int blocks = 4) {
  Tower net;
  net.tied = tied;
  net.blocks = blocks;
  auto model = trainingModel(net, options.enforceIpuRules(true));
  return messageOf([&] { compileRuled(model); });
}

TEST(IpuRules, WantEnoughMicroBatchesForTraining) {
  for (const std::int64_t iterations : {1, 2}) {
    for (const std::int64_t accumulation : {4, 5, 6}) {
      EXPECT_THAT(trainMessage(training(accumulation, four()).deviceIterations(iterations)),
                  AllOf(HasSubstr("gradientAccumulation of at least 7, got " +
                                  std::to_string(accumulation)),
                        HasSubstr("4 stages become 7, 3 extra")));
    }
  }
}

/// The bits of all weights of a tower after one call.
std::vector<std::uint64_t> trainedTower(const Options& options) {
  Tower net;
  auto model = trainingModel(net, options, optim::SGD(0.25));
  HostTensor x(DType::F32, Shape{model.batchLayout().inputFactor(), 4});
  for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
    x.set(i, static_cast<double>(i * 7 % 13) / 13 - 0.4);
  }
  model(x);
  EXPECT_EQ(model.updates(), options.deviceIterations());
  std::vector<std::uint64_t> bits;
  for (const nn::Parameter* parameter : net.parameters()) {
    bits.push_back(parameter->value().hash());
  }
  return bits;
}

TEST(IpuRules, ThatAreKeptTrainToTheBitsOfOneDevice) {
  for (const std::int64_t iterations : {1, 2}) {
    const Options ruled = training(7, four()).deviceIterations(iterations).enforceIpuRules(true);
    const Options one = training(7, {Stage("b0", "b1", "b2", "b3")}).deviceIterations(iterations);
    EXPECT_EQ(trainedTower(ruled), trainedTower(one)) << iterations;
  }
}

TEST(IpuRules, WantEnoughIterationsForInferenceUnlessSharded) {
  const auto message = [](std::int64_t iterations, const Strategy& strategy) {
    Tower net;
    auto model = inferenceModel(net,
                                Options()
                                    .deviceIterations(iterations)
                                    .setExecutionStrategy(strategy)
                                    .enforceIpuRules(true));
    return messageOf([&] { compileRuled(model); });
  };
  EXPECT_THAT(message(2, PipelinedExecution(four())),
              HasSubstr("deviceIterations of at least 4, got 2"));
  EXPECT_EQ(message(4, PipelinedExecution(four())), "nothing thrown");
  EXPECT_EQ(message(2, ShardedExecution(four())), "nothing thrown");
  EXPECT_EQ(message(4, ShardedExecution(four())), "nothing thrown");
}

TEST(IpuRules, WantMultiplesForGroupedSchedules) {
  const auto options = [](const char* schedule, std::int64_t accumulation) {
    Options result;
    result.training.gradientAccumulation(accumulation);
    result.setExecutionStrategy(PipelinedExecution{"b0", "b1"}.schedule(schedule));
    return result;
  };
  EXPECT_THAT(trainMessage(options("grouped", 6), false, 2), HasSubstr("a multiple of 4, got 6"));
  EXPECT_EQ(trainMessage(options("interleaved", 6), false, 2), "nothing thrown");
  EXPECT_EQ(trainMessage(options("sequential", 1), false, 2), "nothing thrown");
}

TEST(IpuRules, InterleavedTrainingHasOneStagePerDevice) {
  Options options;
  options.training.gradientAccumulation(8);
  options.setExecutionStrategy(PipelinedExecution{
      Stage("b0").device(0), Stage("b1").device(1), Stage("b2").device(0), Stage("b3").device(1)}
                                   .schedule("interleaved"));
  EXPECT_THAT(trainMessage(options), AllOf(HasSubstr("not supported"), HasSubstr("4 stages")));
  Tower net;
  auto inference =
      inferenceModel(net,
                     Options().deviceIterations(4).enforceIpuRules(true).setExecutionStrategy(
                         options.executionStrategy()));
  EXPECT_NO_THROW(compileRuled(inference));
}

TEST(IpuRules, WantPowersOfTwoOrRoundUp) {
  Options three = training(5, {"b0", "b1", "b2"});
  EXPECT_THAT(trainMessage(three, false, 3), AllOf(HasSubstr("needs 3"), HasSubstr("use 4")));
  Tower net;
  net.blocks = 3;
  auto model = trainingModel(net, three.enforceIpuRules(true).autoRoundNumDevices(true));
  compileRuled(model);
  EXPECT_EQ(model.compiled().devices, 4);
  EXPECT_THAT(model.compiled().warnings, Contains(HasSubstr("1 stay idle")));
  EXPECT_THAT(trainMessage(training(7, four()).replicationFactor(128)),
              AllOf(HasSubstr("too many devices"), HasSubstr("limit is 64")));
}

TEST(IpuRules, KeepASharedWeightOnOneDevice) {
  EXPECT_THAT(trainMessage(training(7, four()), true),
              AllOf(HasSubstr("weight 'a."), HasSubstr("devices 0, 3")));
  std::vector<Stage> together = {
      Stage("b0").device(0), Stage("b1").device(1), Stage("b2").device(1), Stage("b3").device(0)};
  EXPECT_EQ(trainMessage(training(7, together), true), "nothing thrown");
}

TEST(IpuRules, ThatAreOffGiveWarningsWithTheUtilisation) {
  Tower net;
  auto model = trainingModel(net, training(4, four()));
  compileRuled(model);
  // 4 micro-batches in the time of 4 + 3.
  EXPECT_THAT(model.compiled().warnings,
              Contains(AllOf(HasSubstr("gradientAccumulation 4"), HasSubstr("at most 57 %"))));
  EXPECT_EQ(model.compiled().devices, 4);
  Tower full;
  auto filled = trainingModel(full, training(7, four()));
  compileRuled(filled);
  EXPECT_THAT(filled.compiled().warnings, IsEmpty());
}

TEST(IpuRules, ThatAreOffStateTheBytesOfASharedWeight) {
  Tower net;
  net.tied = true;
  auto model = trainingModel(net, training(7, four()));
  compileRuled(model);
  // Once per round the matrix of 64 bytes, and its gradient for each of 7 micro-batches.
  EXPECT_THAT(model.compiled().warnings,
              Contains(AllOf(HasSubstr("weight 'a.weight' is used on devices 0, 3"),
                             HasSubstr("512 bytes"))));
  // As the program has it: what a tied layer sends between devices more than one that is not.
  const auto bytes = [](bool tied) {
    Tower tower;
    tower.tied = tied;
    auto other = trainingModel(tower, training(7, four()));
    compileRuled(other);
    std::size_t sum = 0;
    for (const program::Transfer& transfer : other.program().transfers) {
      // The scalars of the update go to every device that has weights.
      if (transfer.bytes > sizeof(float)) {
        sum += transfer.bytes * (transfer.oncePerRound ? 1 : 7);
      }
    }
    return sum;
  };
  EXPECT_EQ(bytes(true) - bytes(false), 512U + 128U);  // the matrix and the bias of 16 bytes
}

TEST(Warnings, NameParameterGroupsThatTakeNoWeight) {
  const auto warnings = [](std::string_view ending) {
    Tower net;
    optim::SGD sgd(0.1);
    sgd.addGroup(optim::endingWith(std::string(ending)), {{"lr", 0.2}});
    auto model = trainingModel(net, training(7, four()), sgd);
    compileRuled(model);
    return model.explain();
  };
  EXPECT_THAT(warnings(".scale"), HasSubstr("parameter group 1 of SGD has no weights"));
  EXPECT_THAT(warnings(".bias"), Not(HasSubstr("has no weights")));
}

TEST(Warnings, AreLoggedAtMostMaxRepeatLogsTimes) {
  Tower net;
  auto model = trainingModel(net, training(4, four()).maxRepeatLogs(2));
  ::testing::internal::CaptureStderr();
  for (const std::int64_t rows : {1, 2, 3, 5}) {
    model.compile(std::vector{HostTensor(DType::F32, Shape{4 * rows, 4})});
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  std::size_t count = 0;
  for (std::size_t at = text.find("does not fill"); at != std::string::npos;
       at = text.find("does not fill", at + 1)) {
    ++count;
  }
  EXPECT_EQ(count, 2U) << text;
}

TEST(IpuRules, DecideTheDefaultOfRecomputation) {
  const auto recomputed = [](const Options& options) {
    Tower net;
    auto model = trainingModel(net, options);
    compileRuled(model);
    return model.compiled().plan.recomputed;
  };
  EXPECT_TRUE(recomputed(training(7, four()).enforceIpuRules(true)));
  EXPECT_FALSE(recomputed(training(7, four())));
  EXPECT_FALSE(
      recomputed(training(7, four()).enforceIpuRules(true).recomputation(Recomputation::None)));
  EXPECT_TRUE(recomputed(training(7, four()).recomputation(Recomputation::Pipeline)));
  EXPECT_FALSE(recomputed(training(7, {Stage("b0", "b1", "b2", "b3")}).enforceIpuRules(true)));
}

TEST(Placement, RefusesDataThatFlowsToAnEarlierStage) {
  Tower net;
  auto model = trainingModel(net, training(7, {"b0", "b2", "b1", "b3"}));
  EXPECT_THAT(messageOf([&] { compileRuled(model); }),
              AllOf(HasSubstr("may not flow to an earlier stage"),
                    HasSubstr("stage 1"),
                    HasSubstr("stage 2")));
}

TEST(Blocks, MayNotHoldUnusedLayers) {
  struct Net : nn::Module {
    nn::Linear a{*this, "a", 4, 4};
    nn::Linear unused{*this, "unused", 4, 4};
    nn::Tensor forward(nn::Tensor x) {
      const nn::Block block("B1");
      unused(x);
      return a(x);
    }
  };
  Net net;
  auto model = inferenceModel(net, Options());
  const HostTensor x(DType::F32, Shape{1, 4});
  EXPECT_THAT(messageOf([&] { model(x); }),
              AllOf(HasSubstr("block 'B1'"), HasSubstr("unused layer"), HasSubstr("'unused/")));
}

TEST(Explain, ShowsStagesScheduleAndIdleTime) {
  Tower net;
  auto model = trainingModel(net, training(4, four()));
  EXPECT_THAT(messageOf([&] { model.explain(); }), HasSubstr("not compiled"));
  compileRuled(model);
  const std::string text = model.explain();
  const schedule::PipelineSchedule& schedule = model.compiled().plan.schedule;
  EXPECT_THAT(text, HasSubstr("A call takes 4 rows: micro-batch 1"));
  EXPECT_THAT(text, HasSubstr("Schedule 1f1b"));
  EXPECT_THAT(text, HasSubstr("Pipelined execution; 4 devices reserved for 1 replicas"));
  EXPECT_THAT(text, HasSubstr("b0\n"));
  EXPECT_THAT(text, HasSubstr("b3\n"));
  EXPECT_THAT(text, HasSubstr("device 3: busy"));
  EXPECT_THAT(text, ::testing::ContainsRegex("per round, no order is below [0-9.]+ (us|ms)"));
  EXPECT_THAT(text, ::testing::ContainsRegex("device 0: [0-9.]+ (B|KiB|MiB) of state"));
  EXPECT_THAT(text, HasSubstr("Warning: gradientAccumulation 4 does not fill"));
  EXPECT_EQ(schedule.stashDepth.size(), 4U);
  EXPECT_LE(schedule.bound, schedule.makespan);
}

TEST(IpuRules, WantPhasesAsTheIpuHasThem) {
  const auto phased = [](const Strategy& strategy) {
    Options options;
    options.setExecutionStrategy(strategy);
    return trainMessage(options);
  };
  const std::vector<Phase> pairs = {Phase(Stage("b0"), Stage("b1")),
                                    Phase(Stage("b2"), Stage("b3"))};
  EXPECT_EQ(phased(SerialPhasedExecution(pairs)), "nothing thrown");
  EXPECT_EQ(phased(ParallelPhasedExecution("b0", "b1", "b2", "b3")), "nothing thrown");
  EXPECT_THAT(phased(ParallelPhasedExecution(Phase("b0").devices(1), "b1", "b2", "b3")),
              AllOf(HasSubstr("phase 0 is on device 1"), HasSubstr("parity")));
  EXPECT_THAT(phased(SerialPhasedExecution(Phase(Stage("b0"), Stage("b1")), Phase("b2", "b3"))),
              HasSubstr("phase 0 has 2 stages and phase 1 has 1"));
  EXPECT_THAT(phased(SerialPhasedExecution(Phase::automatic(2))), HasSubstr("phases are explicit"));
  for (const Liveness liveness :
       {Liveness::OffChipAfterFwdNoOverlap, Liveness::OffChipAfterEachPhase}) {
    EXPECT_THAT(
        phased(ParallelPhasedExecution("b0", "b1", "b2", "b3").setTensorsLiveness(liveness)),
        HasSubstr("SerialPhasedExecution only"));
    EXPECT_EQ(phased(SerialPhasedExecution("b0", "b1", "b2", "b3").setTensorsLiveness(liveness)),
              "nothing thrown");
  }
}

TEST(TensorSharding, NeedsReplicas) {
  const auto compiled = [](std::int64_t replicas, bool activations) {
    Options options;
    options.replicationFactor(replicas);
    const TensorLocationSettings sharded =
        TensorLocationSettings().useReplicatedTensorSharding(true);
    if (activations) {
      options.tensorLocations.setActivationLocation(sharded);
    } else {
      options.tensorLocations.setWeightLocation(sharded);
    }
    Tower net;
    auto model = trainingModel(net, options);
    compileRuled(model);
    return model.compiled().warnings;
  };
  EXPECT_THAT(compiled(1, false), Contains(HasSubstr("needs a replicationFactor above 1")));
  EXPECT_THAT(compiled(2, true), Contains(HasSubstr("no effect on activations")));
  EXPECT_THAT(compiled(2, false), Not(Contains(HasSubstr("useReplicatedTensorSharding"))));
}

TEST(SyncPatterns, WithoutBarriersAreWarnedOf) {
  for (const bool barriers : {false, true}) {
    Tower net;
    auto model =
        trainingModel(net, Options().syncPattern(SyncPattern::SinglePipeline).barriers(barriers));
    compileRuled(model);
    if (barriers) {
      EXPECT_THAT(model.compiled().warnings, IsEmpty());
    } else {
      EXPECT_THAT(model.compiled().warnings, Contains(HasSubstr("barriers(true)")));
    }
  }
}

TEST(Overlap, NeedsTilesThatMoveDataUnderTheRules) {
  const auto compiled = [](bool enforced, std::int64_t tiles, OverlapMode mode) {
    Tower net;
    Options options;
    options.enforceIpuRules(enforced).outputOverlap(mode);
    options.tensorLocations.numIOTiles(tiles);
    auto model = trainingModel(net, options);
    compileRuled(model);
  };
  constexpr OverlapMode kLoop = OverlapMode::OverlapAccumulationLoop;
  EXPECT_THAT(messageOf([&] { compiled(true, 0, kLoop); }),
              AllOf(HasSubstr("outputOverlap(OverlapAccumulationLoop)"), HasSubstr("numIOTiles")));
  EXPECT_NO_THROW(compiled(true, 32, kLoop));
  EXPECT_NO_THROW(compiled(false, 0, kLoop));
  EXPECT_NO_THROW(compiled(true, 0, OverlapMode::NoOverlap));
}

}  // namespace
}  // namespace sluice
