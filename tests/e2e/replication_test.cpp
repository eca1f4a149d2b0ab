// Replicas: data parallelism in one process. Weights stay the same in all of them, gradients cross
// once per update, and rows go where SPEC 3 says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/program/verify.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using testing::Bits;
using testing::BlockedCnn;
using testing::BlockedGpt;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsFalse;
using testing::makeInputs;
using testing::ResidualMlp;

const Stage kWhole("b0", "b1", "b2", "b3", "b4");

template <class Net>
Bits trainReplicated(const Options& options, std::int64_t updates) {
  Net net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::int64_t perCall = model.microBatchesPerStep() * options.replicationFactor();
  for (std::int64_t call = 0; model.updates() < updates; ++call) {
    model.run(makeInputs(Net::inputs(), call * perCall, perCall));
  }
  // Every replica holds the same weights and optimizer state, and the buffers of the first.
  Session& session = model.session();
  EXPECT_EQ(session.numReplicas(), static_cast<std::size_t>(options.replicationFactor()));
  Bits bits;
  for (const program::PlacedVariable& placed : session.state().plan().variables()) {
    const std::string& name = placed.variable.name;
    bits[name] = session.read(name).hash();
    for (std::size_t r = 1; r < session.numReplicas(); ++r) {
      if (placed.variable.role != ir::VariableRole::Accumulator) {
        EXPECT_EQ(session.read(name, r).hash(), bits[name]) << name << " of replica " << r;
      }
    }
  }
  return bits;
}

Options replicated(std::int64_t replicas, std::int64_t accumulation) {
  Options options;
  options.replicationFactor(replicas);
  options.training.gradientAccumulation(accumulation);
  options.setExecutionStrategy(PipelinedExecution({kWhole}));
  return options;
}

template <class Net>
class Replicas : public ::testing::Test {};
using Networks = ::testing::Types<BlockedCnn, ResidualMlp, BlockedGpt>;
TYPED_TEST_SUITE(Replicas, Networks);

TYPED_TEST(Replicas, KeepTheSameBitsUnderEveryStrategy) {
  for (const std::int64_t replicas : {2, 3}) {
    for (const std::int64_t accumulation : {1, 4}) {
      const Options one = replicated(replicas, accumulation);
      const Bits expected = trainReplicated<TypeParam>(one, 4);
      for (const char* schedule : {"1f1b", "zb-h1", "gpipe"}) {
        Options options = one.clone();
        options.setExecutionStrategy(
            PipelinedExecution{Stage("b0", "b1"), "b2", Stage("b3", "b4")}.schedule(schedule));
        options.threads(2).deviceIterations(2);
        EXPECT_EQ(trainReplicated<TypeParam>(options, 4), expected) << schedule;
      }
      Options sharded = one.clone();
      sharded.setExecutionStrategy(ShardedExecution{Stage("b0", "b1"), Stage("b2", "b3", "b4")});
      EXPECT_EQ(trainReplicated<TypeParam>(sharded, 4), expected);
    }
  }
}

TEST(Replicas, MeetAtBarriersOfTheirOwn) {
  const Bits expected = trainReplicated<ResidualMlp>(replicated(2, 4), 3);
  Options options = replicated(2, 4);
  options.setExecutionStrategy(PipelinedExecution{Stage("b0", "b1"), Stage("b2", "b3", "b4")});
  options.barriers(true);
  EXPECT_EQ(trainReplicated<ResidualMlp>(options, 3), expected);
  ResidualMlp net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  model.compile(makeInputs(ResidualMlp::inputs(), 0, model.microBatchesPerStep() * 2));
  const program::Program& program = model.program();
  int barriers = 0;
  for (const program::Lane& lane : program.lanes) {
    for (const program::Task& task : lane.tasks) {
      if (task.kind == program::TaskKind::Barrier) {
        ++barriers;
        EXPECT_THAT(program.waitsOf(task), Each(Field(&program::Wait::allReplicas, IsFalse())));
      }
    }
  }
  EXPECT_GT(barriers, 0);
}

/// w x, and that as the loss: the gradient of w is x.
struct ReplicatedProduct : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, {}}, ir::Initializer::constant(1));
  std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x) {
    const nn::Tensor y = x * w;
    return {y, nn::mean(y)};
  }
};

double weightAfter(const std::vector<float>& x, Options options) {
  ReplicatedProduct net;
  auto model = trainingModel(net, options, optim::SGD(1));
  model.run(
      std::vector<HostTensor>{HostTensor::of<float>({static_cast<std::int64_t>(x.size())}, x)});
  return model.session().read("w").at(0);
}

TEST(Reduction, IsTheSameForAccumulationAndReplication) {
  // The gradients are 4, 8, -3 and 7: their mean is 4, their sum 16.
  const std::vector<float> x = {4, 8, -3, 7};
  for (const auto& [accumulation, replicas] : {std::pair(4, 1), {2, 2}, {1, 4}}) {
    Options options;
    options.replicationFactor(replicas);
    options.training.gradientAccumulation(accumulation);
    for (const MeanReductionStrategy strategy : {MeanReductionStrategy::Post,
                                                 MeanReductionStrategy::Running,
                                                 MeanReductionStrategy::PostAndLoss}) {
      Options mean = options.clone();
      mean.training.setMeanAccumulationAndReplicationReductionStrategy(strategy);
      EXPECT_EQ(weightAfter(x, mean), 1 - 4.0) << accumulation << " " << replicas;
    }
    Options sum = options.clone();
    sum.training.accumulationAndReplicationReductionType(Reduction::Sum);
    EXPECT_EQ(weightAfter(x, sum), 1 - 16.0);
  }
}

TEST(Reduction, CrossesReplicasOncePerUpdate) {
  BlockedCnn net;
  auto model = trainingModel(net, replicated(2, 6), optim::SGD(0.1));
  model.compile(makeInputs(BlockedCnn::inputs(), 0, 12));
  const program::Program& program = model.program();
  EXPECT_EQ(program.collectives.size(), 8U);  // weight and bias of four layers
  std::size_t tasks = 0;
  for (const program::Lane& lane : program.lanes) {
    for (const program::Task& task : lane.tasks) {
      tasks += task.kind == program::TaskKind::Reduce ? 1U : 0U;
    }
  }
  EXPECT_EQ(tasks, 8U);
}

TEST(Reduction, IsRefusedByTheVerifierWithoutWaitsForAllReplicas) {
  BlockedCnn net;
  auto model = trainingModel(net, replicated(2, 6), optim::SGD(0.1));
  model.compile(makeInputs(BlockedCnn::inputs(), 0, 12));
  program::Program broken = model.program();
  program::verify(broken);
  std::size_t refused = 0;
  for (program::Wait& wait : broken.waits) {
    if (wait.allReplicas) {
      wait.allReplicas = false;
      try {
        program::verify(broken);
      } catch (const InternalError& error) {
        EXPECT_THAT(error.message(), ::testing::HasSubstr("sum over replicas"));
        ++refused;
      }
      wait.allReplicas = true;
    }
  }
  EXPECT_GE(refused, 8U);  // every sum at least
}

TEST(Buffers, AreThoseOfTheFirstReplicaUnlessEachKeepsItsOwn) {
  const auto meanOfReplica = [](bool broadcast, std::size_t replica) {
    BlockedGpt net;
    auto model = trainingModel(net, replicated(2, 2).broadcastBuffers(broadcast), optim::SGD(0.1));
    model.run(makeInputs(BlockedGpt::inputs(), 0, 4));
    return model.session().read("norm.running_mean", replica).hash();
  };
  EXPECT_EQ(meanOfReplica(true, 0), meanOfReplica(true, 1));
  EXPECT_NE(meanOfReplica(false, 0), meanOfReplica(false, 1));
  EXPECT_EQ(meanOfReplica(false, 0), meanOfReplica(true, 0));
  BlockedGpt net;
  auto model = trainingModel(net, replicated(2, 2).broadcastBuffers(false), optim::SGD(0.1));
  try {
    trainingModel(net, replicated(2, 2), optim::SGD(0.1));
    FAIL() << "another broadcastBuffers was ignored";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("broadcastBuffers"));
  }
}

struct Identity : nn::Module {
  nn::Tensor forward(const nn::Tensor& x) { return nn::relu(x); }
};

std::vector<float> outputs(const Options& options, std::vector<float> x, Shape shape) {
  Identity net;
  auto model = inferenceModel(net, options);
  const HostTensor out = model(HostTensor::of<float>(std::move(shape), std::move(x)));
  return {out.data<float>().begin(), out.data<float>().end()};
}

TEST(Outputs, OfReplicasFollowTheOutputMode) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  Options eight;
  eight.deviceIterations(8);
  EXPECT_EQ(outputs(eight.clone().outputMode(OutputMode::All), x, {8}), x);
  EXPECT_THAT(outputs(eight.clone().outputMode(OutputMode::EveryN, 4), x, {8}), ElementsAre(4, 8));
  EXPECT_THAT(outputs(eight.clone().outputMode(OutputMode::Final), x, {8}), ElementsAre(8));
  EXPECT_THAT(outputs(eight.clone().outputMode(OutputMode::Sum), x, {8}), ElementsAre(36));
  Options two;
  two.deviceIterations(4).replicationFactor(2);
  EXPECT_EQ(outputs(two.clone().outputMode(OutputMode::All), x, {8}), x);
  EXPECT_THAT(outputs(two.clone().outputMode(OutputMode::EveryN, 2), x, {8}),
              ElementsAre(3, 4, 7, 8));
  EXPECT_THAT(outputs(two.clone().outputMode(OutputMode::Final), x, {8}), ElementsAre(7, 8));
  EXPECT_THAT(outputs(two.clone().outputMode(OutputMode::Sum), x, {8}), ElementsAre(16, 20));
}

TEST(Inputs, AreSharedInGroupsOfReplicas) {
  Options options;
  options.deviceIterations(2).replicationFactor(4).inputReplicaGrouping(2,
                                                                        CommGroupType::Consecutive);
  EXPECT_THAT(outputs(options.clone().outputMode(OutputMode::All), {1, 2, 3, 4}, {4}),
              ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
  options.inputReplicaGrouping(2, CommGroupType::Orthogonal);
  EXPECT_THAT(outputs(options.clone().outputMode(OutputMode::All), {1, 2, 3, 4}, {4}),
              ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
}

TEST(Replicas, OfATrainedModelServeInferenceWithoutThem) {
  BlockedCnn net;
  auto training = trainingModel(net, replicated(2, 2), optim::SGD(0.1));
  const std::vector<HostTensor> step = makeInputs(BlockedCnn::inputs(), 0, 4);
  auto before = inferenceModel(net, Options().setExecutionStrategy(PipelinedExecution({kWhole})));
  const std::vector<HostTensor> one = makeInputs(BlockedCnn::inputs(), 0, 1);
  const std::uint64_t first = before.run(one)[0].hash();  // compiled before there are replicas
  training.run(step);
  EXPECT_NE(before.run(one)[0].hash(), first);
  EXPECT_EQ(training.session().read("fc2.weight", 1).hash(),
            training.session().read("fc2.weight").hash());
}

}  // namespace
}  // namespace sluice
