// The training loop in several processes: what one of them notices alone, a signal or its clock,
// all act on at the same step.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/runtime/process_world.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/mpi/common_folder.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::CommonFolder;
using ::testing::HasSubstr;
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

  FitResult run(FitOptions fitting, std::int64_t samples = 64) {
    auto model = trainingModel(net, options, optim::AdamW(0.01));
    DataLoader loader(options,
                      data::tensorDataset(testing::makeInputs(ResidualMlp::inputs(), 0, samples)),
                      batchSize);
    for (std::int64_t i = 0; i < taken; ++i) {
      loader.next();
    }
    fitting.progress = false;
    FitResult result = fit(model, loader, fitting);
    updates = model.updates();
    EXPECT_EQ(model.largestInAllProcesses("updates", updates), updates);
    EXPECT_EQ(-model.largestInAllProcesses("updates", -updates), updates);
    return result;
  }

  ResidualMlp net;
  Options options;
  std::int64_t batchSize = 1;
  std::int64_t taken = 0;  // batches, before fit
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

/// Nobody waits for the patience of a process: all say at once in what they differ.
TEST(MpiFit, RefusesToBeginWithOtherStepsThanOtherProcesses) {
  const runtime::ProcessWorld& world = *runtime::ProcessWorld::open();
  const bool last = world.rank() == world.size() - 1;
  const auto refusal = [](const FitOptions& fitting, std::int64_t samples) {
    Training training(true);
    return testing::messageOf<InvalidArgument>([&] { training.run(fitting, samples); });
  };
  EXPECT_THAT(refusal({.epochs = last ? 3 : 2}, 64),
              AllOf(HasSubstr("the number of epochs is 2 in one process and 3 in another"),
                    HasSubstr(last ? "here 3" : "here 2")));
  EXPECT_THAT(refusal({.epochs = 5, .firstEpoch = last ? 1 : 4}, 64),
              HasSubstr("the first epoch is 1 in one process and 4 in another"));
  EXPECT_THAT(refusal({.epochs = 5}, last ? 40 : 64),
              HasSubstr("the number of steps in an epoch is 80 in one process and 128 in another"));
  const auto refusalOf = [](std::int64_t batchSize, std::int64_t taken) {
    Training training(true);
    training.batchSize = batchSize;
    training.taken = taken;
    return testing::messageOf<InvalidArgument>([&] { training.run({.epochs = 1}); });
  };
  EXPECT_THAT(refusalOf(1, last ? 3 : 0),
              HasSubstr("the loader's first step in the epoch is 0 in one process and 3 in"));
  EXPECT_THAT(refusalOf(last ? 1000 : 1, 0),
              HasSubstr("the number of steps in an epoch is 0 in one process and 128 in another"));
  EXPECT_THAT(refusalOf(1000, 0), HasSubstr("the loader delivers no batch"));
}

}  // namespace
}  // namespace sluice
