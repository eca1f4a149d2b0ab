// Checkpoints over strategies: a run that stops under one and goes on under another ends with the
// bits of a run that never stopped.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using parallel::ParallelPhasedExecution;
using parallel::Phase;
using parallel::PipelinedExecution;
using parallel::SerialPhasedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using testing::Bits;
using testing::BlockedGpt;
using testing::makeInputs;
using testing::ResidualMlp;
using testing::TempFolder;

constexpr std::int64_t kAccumulation = 4;
constexpr std::int64_t kUpdates = 6;

Options under(const Strategy& strategy, std::int64_t replicas = 1) {
  Options options;
  options.setExecutionStrategy(strategy).replicationFactor(replicas);
  options.training.gradientAccumulation(kAccumulation);
  return options;
}

std::vector<Options> strategies() {
  std::vector<Options> all;
  all.push_back(under(PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")})));
  all.push_back(under(PipelinedExecution({Stage("b0", "b1"), "b2", Stage("b3", "b4")})));
  all.back().threads(2).recomputation(Recomputation::Pipeline);
  all.push_back(under(PipelinedExecution{"b0", "b1", "b2", "b3", "b4"}.schedule("zero-bubble")));
  all.push_back(under(ShardedExecution{Stage("b0", "b1"), Stage("b2", "b3", "b4")}));
  all.push_back(under(SerialPhasedExecution({Phase("b0", "b1"), Phase("b2"), Phase("b3", "b4")})));
  const TensorLocationSettings off = TensorLocationSettings().useOnChipStorage(false);
  all.push_back(under(PipelinedExecution({Stage("b0", "b1"), Stage("b2", "b3", "b4")})));
  all.back().tensorLocations.setWeightLocation(off).setOptimizerLocation(off);
  return all;
}

/// Goes on from the newest checkpoint, if there is one, up to this number of updates and saves.
template <class Net>
Bits trainTo(std::int64_t updates,
             const Options& options,
             const optim::Optimizer& rule,
             const fs::path& folder) {
  Net net;
  auto model = trainingModel(net, options, rule);
  const CheckpointFolder checkpoints(folder);
  checkpoints.resume(model);
  const std::int64_t perCall = model.microBatchesPerStep() * options.replicationFactor();
  while (model.updates() < updates) {
    model.run(makeInputs(Net::inputs(), model.updates() * perCall, perCall));
  }
  checkpoints.save(model);
  Bits bits;
  const TrainingState state = model.trainingState();
  for (const auto& [name, tensor] : state.model) {
    bits[name] = tensor.hash();
  }
  for (const auto& [name, tensor] : flattened(state.optimizer)) {
    bits[name] = tensor.hash();
  }
  for (std::size_t r = 0; r < state.replicas.size(); ++r) {
    for (const auto& [name, tensor] : state.replicas[r]) {
      bits["replica " + std::to_string(r + 1) + " " + name] = tensor.hash();
    }
  }
  return bits;
}

template <class Net>
Bits undisturbed(const Options& options, const optim::Optimizer& rule) {
  const TempFolder folder;
  return trainTo<Net>(kUpdates, options, rule, folder.path());
}

template <class Net>
void expectSameBitsAcrossStrategies(const optim::Optimizer& rule) {
  const std::vector<Options> all = strategies();
  const Bits expected = undisturbed<Net>(all[0], rule);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Options& next = all[(i + 1) % all.size()];
    SCOPED_TRACE(all[i].str() + "then " + next.str());
    const TempFolder folder;
    trainTo<Net>(2, all[i], rule, folder.path());
    EXPECT_EQ(trainTo<Net>(kUpdates, next, rule, folder.path()), expected);
  }
}

TEST(Checkpoints, GoOnWithTheSameBitsUnderEveryStrategy) {
  expectSameBitsAcrossStrategies<BlockedGpt>(optim::AdamW(0.01));
  expectSameBitsAcrossStrategies<ResidualMlp>(
      optim::SGD({.lr = 0.05, .momentum = 0.9, .weightDecay = 0.01, .useCombinedAccum = true}));
}

TEST(Checkpoints, SurviveAStopAfterEveryUpdate) {
  const std::vector<Options> all = strategies();
  const optim::AdamW rule(0.01);
  const Bits expected = undisturbed<ResidualMlp>(all[0], rule);
  const TempFolder folder;
  Bits last;
  for (std::int64_t update = 1; update <= kUpdates; ++update) {
    last = trainTo<ResidualMlp>(
        update, all[static_cast<std::size_t>(update) % all.size()], rule, folder.path());
  }
  EXPECT_EQ(last, expected);
}

TEST(Checkpoints, HoldWholeStateOfWhichReplicasHaveParts) {
  const Strategy whole = PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")});
  Options parts = under(whole, 2);
  parts.tensorLocations.setOptimizerLocation(TensorLocationSettings()
                                                 .useReplicatedTensorSharding(true)
                                                 .minElementsForReplicatedTensorSharding(8));
  const optim::AdamW rule(0.01);
  const Bits expected = undisturbed<ResidualMlp>(under(whole, 2), rule);
  for (const bool partsFirst : {true, false}) {
    const TempFolder folder;
    trainTo<ResidualMlp>(2, partsFirst ? parts : under(whole, 2), rule, folder.path());
    EXPECT_EQ(
        trainTo<ResidualMlp>(kUpdates, partsFirst ? under(whole, 2) : parts, rule, folder.path()),
        expected);
  }
}

TEST(Checkpoints, HoldTheBuffersOfEveryReplica) {
  const Strategy whole = PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")});
  const Strategy cut = PipelinedExecution({Stage("b0", "b1"), Stage("b2", "b3", "b4")});
  for (const bool broadcast : {true, false}) {
    const optim::AdamW rule(0.01);
    const Bits expected =
        undisturbed<BlockedGpt>(under(whole, 2).broadcastBuffers(broadcast), rule);
    const TempFolder folder;
    trainTo<BlockedGpt>(3, under(whole, 2).broadcastBuffers(broadcast), rule, folder.path());
    EXPECT_EQ(trainTo<BlockedGpt>(
                  kUpdates, under(cut, 2).broadcastBuffers(broadcast), rule, folder.path()),
              expected);
    EXPECT_EQ(expected.count("replica 1 norm.running_mean"), broadcast ? 0U : 1U);
  }
}

}  // namespace
}  // namespace sluice
