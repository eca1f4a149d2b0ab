// The training loop in several processes: what one of them notices alone, a signal or its clock,
// all act on at the same step.
#include <csignal>

#include <gtest/gtest.h>

#include "sluice/runtime/process_world.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/mpi/common_folder.h"

namespace sluice {
namespace {

using testing::CommonFolder;
using testing::ResidualMlp;

/// Trains in all processes, into a folder of all.
struct Training {
  explicit Training(bool shares) {
    options.distributed.shareModel(shares);
    options.training.gradientAccumulation(4);
    options.outputMode(OutputMode::All);
    if (shares) {
      options.setExecutionStrategy(
          parallel::PipelinedExecution({parallel::Stage("b0", "b1"), "b2", "b3", "b4"}));
    }
  }

  FitResult run(FitOptions fitting) {
    auto model = trainingModel(net, options, optim::AdamW(0.01));
    DataLoader loader(
        options, data::tensorDataset(testing::makeInputs(ResidualMlp::inputs(), 0, 64)), 1);
    fitting.progress = false;
    FitResult result = fit(model, loader, fitting);
    updates = model.updates();
    EXPECT_EQ(model.largestInAllProcesses("updates", updates), updates);
    EXPECT_EQ(-model.largestInAllProcesses("updates", -updates), updates);
    return result;
  }

  ResidualMlp net;
  Options options;
  std::int64_t updates = 0;
};

TEST(MpiFit, EndsAtOneStepInAllProcessesIfOneGetsASignal) {
  const runtime::ProcessWorld& world = *runtime::ProcessWorld::open();
  for (const bool shares : {true, false}) {
    const CommonFolder folder;
    Training training(shares);
    std::int64_t steps = 0;
    const auto signalsOnce = [&](auto, auto) {
      if (++steps == 5 && world.rank() == world.size() - 1) {
        std::raise(SIGTERM);
      }
      return Metrics{};
    };
    const FitResult result = training.run(
        {.epochs = 100000, .metrics = signalsOnce, .checkpoints = {.folder = folder.path()}});
    EXPECT_EQ(result.signal, SIGTERM);
    EXPECT_GE(training.updates, 5);
    // The checkpoint is one of all: a run that goes on begins at its step in every process.
    Training again(shares);
    const FitResult resumed = again.run({.epochs = 0, .resume = folder.path()});
    EXPECT_FALSE(resumed.resumed.empty());
    EXPECT_EQ(again.updates, training.updates);
  }
}

TEST(MpiFit, SavesByTheClockOfAnyProcess) {
  const runtime::ProcessWorld& world = *runtime::ProcessWorld::open();
  const CommonFolder folder;
  double now = 0;
  const auto clock = [&] { return world.rank() == 1 ? now += 10 : 0; };  // the others stand still
  Training training(true);
  training.run(
      {.epochs = 4,
       .checkpoints = {.folder = folder.path(), .everySeconds = 1, .keep = 1000, .clock = clock}});
  EXPECT_GT(CheckpointFolder(folder.path()).files().size(), 1U);
}

}  // namespace
}  // namespace sluice
