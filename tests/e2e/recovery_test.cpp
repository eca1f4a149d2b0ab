// Calls that fail with a recoverable error are made again, and training ends with the bits of an
// undisturbed run. A fault is thrown in the engine before a chosen task.
#include <atomic>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/base/input_file.h"
#include "sluice/runtime/engine.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/remote_support.h"
#include "tests/e2e/strategy_cases.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::Bits;
using testing::bitsOf;
using testing::BlockedGpt;
using testing::differenceBetweenRounds;
using ::testing::HasSubstr;
using testing::makeInputs;
using testing::messageOf;
using testing::onOneDevice;
using testing::StrategyCase;
using testing::strategyCases;
using testing::TempFolder;

constexpr std::int64_t kCalls = 4;

/// Throws when as many tasks as it was given have been issued.
class Fault {
 public:
  Fault(std::int64_t task, std::function<void()> raise) : left_(task), raise_(std::move(raise)) {}
  void operator()(std::size_t /*lane*/, std::int64_t /*count*/) {
    if (left_.fetch_sub(1) == 0) {
      raise_();
    }
  }

 private:
  std::atomic<std::int64_t> left_;
  std::function<void()> raise_;
};

std::function<void()> recoverable(RecoveryAction action) {
  return [action] { throw RecoverableError(action, "the link is down"); };
}

enum class Calls : std::uint8_t { Here, Asynchronous };

/// Trains, with a fault before the given task of the given call; negative: none.
Bits trainedThrough(const Options& options,
                    std::int64_t call,
                    std::int64_t task,
                    Calls calls = Calls::Here,
                    RecoveryAction action = RecoveryAction::DeviceReset) {
  BlockedGpt net;
  auto model = trainingModel(net, options.clone(), optim::AdamW(0.01));
  model.setLrSchedule(optim::LrSchedule::cosine(kCalls * 4));
  const auto fault = std::make_shared<Fault>(task, recoverable(action));
  const std::int64_t perRun = model.microBatchesPerStep() * options.replicationFactor();
  for (std::int64_t i = 0; i < kCalls; ++i) {
    const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), i * perRun, perRun);
    model.compile(inputs);
    if (i == call) {
      model.session().engine().setBeforeTask(
          [fault](std::size_t lane, std::int64_t count) { (*fault)(lane, count); });
    }
    if (calls == Calls::Here) {
      model.run(inputs);
    } else {
      EXPECT_FALSE(model.runAsync(inputs).get().empty());
    }
  }
  EXPECT_EQ(model.updates(), kCalls * options.deviceIterations());
  return bitsOf(model.session());
}

class Recovery : public ::testing::TestWithParam<StrategyCase> {};

TEST_P(Recovery, EndsWithTheBitsOfAnUndisturbedRun) {
  Options options = onOneDevice();
  GetParam().set(options);
  const Bits expected = trainedThrough(options, -1, 0);
  for (const std::int64_t every : {1, 3}) {
    for (const std::size_t undo : {std::size_t{0}, std::size_t{64} << 20U}) {
      options.recovery(2, 0, every).undoMemory(undo);
      for (const std::int64_t task : {0, 7, 31}) {
        SCOPED_TRACE(fmt::format("every {}, undo {}, task {}", every, undo, task));
        EXPECT_EQ(differenceBetweenRounds(expected, trainedThrough(options, 2, task)), "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix,
                         Recovery,
                         ::testing::ValuesIn(strategyCases()),
                         [](const auto& tested) { return tested.param.name; });

class AsynchronousRecovery : public ::testing::TestWithParam<RecoveryAction> {};

TEST_P(AsynchronousRecovery, EndsWithTheBitsOfAnUndisturbedRun) {
  const Bits expected = trainedThrough(onOneDevice(), -1, 0);
  for (const std::int64_t every : {1, 3}) {
    for (const std::size_t undo : {std::size_t{0}, std::size_t{64} << 20U}) {
      const Options options = onOneDevice().recovery(2, 0, every).undoMemory(undo);
      for (const std::int64_t task : {0, 7, 20}) {
        SCOPED_TRACE(fmt::format("every {}, undo {}, task {}", every, undo, task));
        const Bits bits = trainedThrough(options, 2, task, Calls::Asynchronous, GetParam());
        EXPECT_EQ(differenceBetweenRounds(expected, bits), "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Actions,
                         AsynchronousRecovery,
                         ::testing::Values(RecoveryAction::DeviceReset,
                                           RecoveryAction::PartitionReset));

/// What an asynchronous call throws whose every attempt ends with this error.
template <class E>
std::string asynchronousFailure(const Options& options, const std::function<void()>& raise) {
  BlockedGpt net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), 0, 4);
  model.compile(inputs);
  model.session().engine().setBeforeTask([raise](std::size_t, std::int64_t) { raise(); });
  Pending pending = model.runAsync(inputs);
  return messageOf<E>([&] { pending.get(); });
}

TEST(AsynchronousErrors, OfEachKindReachTheOneWhoAsksForTheResult) {
  const TempFolder folder;
  const Options options = onOneDevice().recovery(2, 0).logDir(folder.path().string());
  EXPECT_THAT(asynchronousFailure<UnrecoverableError>(options.clone(),
                                                      recoverable(RecoveryAction::DeviceReset)),
              AllOf(HasSubstr("(after 2 retries)"), HasSubstr("diagnostics-")));
  EXPECT_THAT(asynchronousFailure<UnrecoverableError>(options.clone(),
                                                      recoverable(RecoveryAction::FullReset)),
              HasSubstr("reset of the machine"));
  EXPECT_THAT(asynchronousFailure<UnrecoverableError>(options.clone(),
                                                      [] { throw UnrecoverableError("on fire"); }),
              AllOf(HasSubstr("on fire"), HasSubstr("diagnostics-")));
  EXPECT_THAT(asynchronousFailure<DeviceError>(options.clone(), [] { throw DeviceError("odd"); }),
              HasSubstr("odd"));
  EXPECT_THAT(asynchronousFailure<InvalidArgument>(options.clone(),
                                                   [] { throw InvalidArgument("a bad label"); }),
              HasSubstr("a bad label"));
}

/// The rest of the call needs nothing of a model that has ended meanwhile.
TEST(AsynchronousRecoveryOfAModel, ThatEndsInItsOwnFunctionEndsWithTheResultOrTheError) {
  for (const bool fails : {false, true}) {
    struct Ending : nn::Module {
      std::function<void()> act;
      nn::CPU call{[this](std::span<const HostTensor> in) {
                     act();
                     return std::vector<HostTensor>{in[0]};
                   },
                   "ends"};
      nn::Tensor forward(const nn::Tensor& x) {
        return call({x * 2.0}, {{DType::F32, Shape{1}}})[0] + 1.0;
      }
    };
    Ending net;
    auto model = std::make_unique<Model>(inferenceModel(net, Options().recovery(2, 0)));
    net.act = [] {};
    const std::vector<HostTensor> inputs = {HostTensor::of<float>(Shape{1}, {3})};
    model->run(inputs);
    net.act = [&] {
      model.reset();
      if (fails) {
        recoverable(RecoveryAction::DeviceReset)();
      }
    };
    Pending pending = model->runAsync(inputs);
    if (fails) {
      EXPECT_THAT(messageOf<RecoverableError>([&] { pending.get(); }), HasSubstr("link is down"));
    } else {
      EXPECT_EQ(pending.get()[0].at(0), 7);
    }
    EXPECT_EQ(model, nullptr);
  }
}

/// What a training loop leaves: weights, and what its callbacks were told.
struct Fitted {
  Bits bits;
  std::vector<std::string> told;
  std::size_t files = 0;
};

/// Throws faults in given steps, a given number of times each, and notes what it is told.
class Saboteur : public Callback {
 public:
  struct Plan {
    std::int64_t afterUpdates = 0;
    std::int64_t task = 0;
    std::int64_t times = 1;
    RecoveryAction action = RecoveryAction::DeviceReset;
  };
  Saboteur(Model& model, std::vector<Plan> plans) : model_(model), plans_(std::move(plans)) {}
  void onStep(const Progress& p) override {
    told.push_back(fmt::format(
        "step {} of epoch {}, {} updates, {}", p.step, p.epoch, p.updates, p.metrics[0].second));
    for (const Plan& plan : plans_) {
      if (plan.afterUpdates == p.updates) {
        arm(plan);
      }
    }
  }
  void onEpochEnd(const Progress& p) override {
    told.push_back(fmt::format("end of epoch {}, {}", p.epoch, p.metrics[0].second));
  }
  std::vector<std::string> told;

 private:
  /// Each time counts the tasks anew, so that the calls before are made again undisturbed.
  void arm(const Plan& plan) {
    auto left = std::make_shared<std::atomic<std::int64_t>>(plan.times);
    auto fault = std::make_shared<std::atomic<std::int64_t>>(plan.task);
    model_.session().engine().setBeforeTask(
        [left, fault, plan](std::size_t /*lane*/, std::int64_t /*count*/) {
          if (left->load() > 0 && fault->fetch_sub(1) == 0) {
            fault->store(plan.task);
            left->fetch_sub(1);
            recoverable(plan.action)();
          }
        });
  }

  Model& model_;
  std::vector<Plan> plans_;
};

DataLoader gptBatches(DataLoaderMode mode) {
  const std::vector<HostTensor> all = makeInputs(BlockedGpt::inputs(), 0, 10);
  return {Options(),
          data::tensorDataset(all),
          4,
          {.shuffle = data::Shuffle::Yes, .seed = 3, .workers = 2, .mode = mode}};
}

Fitted fitted(Options options,
              std::vector<Saboteur::Plan> plans,
              DataLoaderMode mode = DataLoaderMode::Sync,
              std::int64_t everySteps = 3) {
  const TempFolder folder;
  BlockedGpt net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  DataLoader loader = gptBatches(mode);
  const auto saboteur = std::make_shared<Saboteur>(model, std::move(plans));
  fit(model,
      loader,
      {.epochs = 3,
       .callbacks = {saboteur},
       .progress = false,
       .checkpoints = {.folder = folder.path(), .everySteps = everySteps}});
  EXPECT_EQ(model.updates(), 15);
  return {bitsOf(model.session()), saboteur->told, CheckpointFolder(folder.path()).files().size()};
}

TEST(FitRecovery, GoesBackToItsNewestCheckpointAndTellsEveryStepOnce) {
  const Fitted calm = fitted(onOneDevice(), {});
  EXPECT_EQ(calm.told.size(), 18U);
  for (const auto mode : {DataLoaderMode::Sync, DataLoaderMode::Async}) {
    for (const RecoveryAction action :
         {RecoveryAction::DeviceReset, RecoveryAction::PartitionReset}) {
      for (const std::size_t undo : {std::size_t{0}, std::size_t{64} << 20U}) {
        // Before the first periodic checkpoint, right after one, at the end of an epoch, and while
        // steps are made again.
        const Fitted disturbed =
            fitted(onOneDevice().recovery(2, 0, 0).undoMemory(undo),
                   {{.afterUpdates = 1, .task = 5, .action = action},
                    {.afterUpdates = 6, .task = 0, .action = action},
                    {.afterUpdates = 9, .task = 9, .action = action},
                    {.afterUpdates = 13, .task = 4, .times = 2, .action = action}},
                   mode);
        EXPECT_EQ(differenceBetweenRounds(calm.bits, disturbed.bits), "");
        EXPECT_EQ(calm.told, disturbed.told);
        EXPECT_EQ(disturbed.files, 3U);
      }
    }
  }
}

/// A checkpoint that is many epochs old: only the one that fit makes before its first step.
TEST(FitRecovery, GoesBackOverSeveralEpochs) {
  const Fitted calm = fitted(onOneDevice(), {}, DataLoaderMode::Sync, 0);
  const Fitted disturbed = fitted(
      onOneDevice().recovery(1, 0, 0), {{.afterUpdates = 12, .task = 6}}, DataLoaderMode::Sync, 0);
  EXPECT_EQ(differenceBetweenRounds(calm.bits, disturbed.bits), "");
  EXPECT_EQ(calm.told, disturbed.told);
}

TEST(FitRecovery, GivesUpAfterItsRetriesAndLeavesTheCheckpoint) {
  const TempFolder folder;
  const TempFolder logs;
  BlockedGpt net;
  auto model = trainingModel(
      net, onOneDevice().recovery(2, 0, 0).logDir(logs.path().string()), optim::AdamW(0.01));
  DataLoader loader = gptBatches(DataLoaderMode::Sync);
  const auto saboteur = std::make_shared<Saboteur>(
      model, std::vector<Saboteur::Plan>{{.afterUpdates = 4, .task = 3, .times = 100}});
  const FitOptions options{.epochs = 3,
                           .callbacks = {saboteur},
                           .progress = false,
                           .checkpoints = {.folder = folder.path(), .everySteps = 2}};
  EXPECT_THAT(messageOf<UnrecoverableError>([&] { fit(model, loader, options); }),
              AllOf(HasSubstr("(after 2 retries)"), HasSubstr("diagnostics-")));
  EXPECT_EQ(readCheckpoint(*CheckpointFolder(folder.path()).latest()).updates, 4);
}

/// Without checkpoints of its own, fit has nothing to go back to.
TEST(FitRecovery, WithoutCheckpointsThrowsTheErrorAsItIs) {
  BlockedGpt net;
  auto model = trainingModel(net, onOneDevice().recovery(2, 0, 0), optim::AdamW(0.01));
  DataLoader loader = gptBatches(DataLoaderMode::Sync);
  const auto saboteur =
      std::make_shared<Saboteur>(model, std::vector<Saboteur::Plan>{{.afterUpdates = 4}});
  EXPECT_THAT(messageOf<RecoverableError>(
                  [&] { fit(model, loader, {.callbacks = {saboteur}, .progress = false}); }),
              HasSubstr("the link is down"));
}

/// What the host changes between calls is not lost, whoever changes it.
TEST(RecoveredState, HasWhatTheHostChangedBetweenCalls) {
  const auto run = [](bool fault) {
    BlockedGpt net;
    auto model =
        trainingModel(net, onOneDevice().recovery(2, 0, 10).undoMemory(0), optim::AdamW(0.01));
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), i * 4, 4);
      model.compile(inputs);
      if (i == 1) {
        net.parameters()[0]->setValue(HostTensor::full(net.parameters()[0]->variable().type, 0.25));
      } else if (i == 2) {
        model.setOptimizer(optim::AdamW(0.5));
      } else if (i == 3) {
        model.setRngState({9, 100});
      }
      const auto once = std::make_shared<Fault>(9, recoverable(RecoveryAction::PartitionReset));
      if (fault) {
        model.session().engine().setBeforeTask(
            [once](std::size_t lane, std::int64_t count) { (*once)(lane, count); });
      }
      model.run(inputs);
    }
    return bitsOf(model.session());
  };
  EXPECT_EQ(differenceBetweenRounds(run(false), run(true)), "");
}

/// Trains with copies of every tenth call. The fourth call meets a fault, and while the calls
/// before it are made again an error ends them, before the given task; then `between` is called,
/// and the call is made once more. Negative: nothing happens.
Bits trainedBehind(std::int64_t task, const std::function<void(Model&)>& between) {
  BlockedGpt net;
  auto model =
      trainingModel(net, onOneDevice().recovery(2, 0, 10).randomSeed(3), optim::AdamW(0.01));
  for (std::int64_t i = 0; i < 5; ++i) {
    const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), i * 4, 4);
    model.compile(inputs);
    if (i != 3 || task < 0) {
      model.run(inputs);
      continue;
    }
    std::atomic<std::int64_t> seen = 0;
    model.session().engine().setBeforeTask([&seen, task](std::size_t, std::int64_t) {
      const std::int64_t now = seen++;
      if (now == 0) {
        recoverable(RecoveryAction::DeviceReset)();
      } else if (now == task) {
        throw InvalidArgument("a bad label");
      }
    });
    EXPECT_THAT(messageOf<InvalidArgument>([&] { model.run(inputs); }), HasSubstr("a bad label"));
    EXPECT_LT(model.updates(), 3);
    between(model);
    model.session().engine().setBeforeTask(nullptr);
    model.run(inputs);
  }
  return bitsOf(model.session());
}

TEST(RecoveredState, CatchesUpAfterAnErrorThatEndedTheRecovery) {
  const Bits expected = trainedBehind(-1, [](Model&) {});
  for (const std::int64_t task : {5, 30, 60}) {
    EXPECT_EQ(differenceBetweenRounds(expected, trainedBehind(task, [](Model&) {})), "") << task;
  }
}

/// What the host loads after the error counts, not what was to be made again.
TEST(RecoveredState, IsThatOfTheHostAfterAnErrorThatEndedTheRecovery) {
  trainedBehind(30, [](Model& model) {
    const std::int64_t updates = model.updates();
    const NamedTensors before = model.stateDict();
    model.loadStateDict(before);
    EXPECT_EQ(model.updates(), updates);
    model.session().engine().setBeforeTask(nullptr);
    model.run(makeInputs(BlockedGpt::inputs(), 0, 4));
    EXPECT_EQ(model.updates(), updates + 1);
  });
}

/// What a call throws whose every attempt ends with this error.
template <class E>
std::string failure(const Options& options, const std::function<void()>& raise) {
  BlockedGpt net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), 0, 4);
  model.compile(inputs);
  model.session().engine().setBeforeTask([raise](std::size_t, std::int64_t) { raise(); });
  return messageOf<E>([&] { model.run(inputs); });
}

TEST(Errors, OfEachKindReachTheCaller) {
  const Options options = onOneDevice();
  for (const RecoveryAction action :
       {RecoveryAction::DeviceReset, RecoveryAction::PartitionReset, RecoveryAction::FullReset}) {
    try {
      BlockedGpt net;
      auto model = trainingModel(net, options.clone(), optim::AdamW(0.01));
      const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), 0, 4);
      model.compile(inputs);
      model.session().engine().setBeforeTask(
          [action](std::size_t, std::int64_t) { recoverable(action)(); });
      model.run(inputs);
      ADD_FAILURE() << "nothing thrown";
    } catch (const RecoverableError& error) {
      EXPECT_EQ(error.recoveryAction(), action);
      EXPECT_EQ(error.type(), "RecoverableError");
    }
  }
  EXPECT_THAT(
      failure<UnrecoverableError>(options.clone(), [] { throw UnrecoverableError("on fire"); }),
      HasSubstr("on fire"));
  EXPECT_THAT(failure<Error>(options.clone(), [] { throw DeviceError("some error"); }),
              HasSubstr("some error"));
}

TEST(Errors, ThatStayAreUnrecoverableAndLeaveWhatIsKnown) {
  const TempFolder folder;
  Options options = onOneDevice();
  options.recovery(2, 0).logDir(folder.path().string());
  const auto bundles = [&] {
    std::vector<std::filesystem::path> found;
    for (const auto& each : std::filesystem::directory_iterator(folder.path())) {
      found.push_back(each.path());
    }
    return found;
  };
  EXPECT_THAT(
      failure<UnrecoverableError>(options.clone(), recoverable(RecoveryAction::DeviceReset)),
      AllOf(HasSubstr("the link is down (after 2 retries)"), HasSubstr("diagnostics-")));
  ASSERT_EQ(bundles().size(), 1U);
  EXPECT_THAT(readFile(bundles()[0] / "error.txt"), HasSubstr("the link is down"));
  EXPECT_THAT(readFile(bundles()[0] / "options.txt"), HasSubstr("recovery: 2, 0, 1"));
  EXPECT_THAT(readFile(bundles()[0] / "program.txt"), HasSubstr("lane compute0"));
  EXPECT_THAT(readFile(bundles()[0] / "versions.txt"), HasSubstr("Sluice "));
  EXPECT_THAT(readFile(bundles()[0] / "counts.txt"), HasSubstr("updates 0"));
  EXPECT_THAT(failure<UnrecoverableError>(options.clone(), recoverable(RecoveryAction::FullReset)),
              HasSubstr("reset of the machine"));
  EXPECT_THAT(
      failure<UnrecoverableError>(options.clone(), [] { throw UnrecoverableError("on fire"); }),
      AllOf(HasSubstr("on fire"), HasSubstr("diagnostics-")));
  EXPECT_EQ(bundles().size(), 3U);
}

TEST(Errors, SayIfWhatIsKnownCannotBeWritten) {
  const TempFolder folder;
  const std::filesystem::path file = folder / "file";  // no folder, so nothing can be below it
  writeFileAtomically(file, "");
  EXPECT_THAT(failure<UnrecoverableError>(onOneDevice().recovery(2, 0).logDir(file.string()),
                                          [] { throw UnrecoverableError("on fire"); }),
              AllOf(HasSubstr("on fire"),
                    HasSubstr("no diagnostics could be written"),
                    ::testing::Not(HasSubstr("diagnostics-"))));
}

TEST(Errors, ThatAreNotRecoverableAreNotTriedAgain) {
  int tries = 0;
  EXPECT_THAT(failure<InvalidArgument>(onOneDevice().recovery(5, 0),
                                       [&] {
                                         ++tries;
                                         throw InvalidArgument("a bad label");
                                       }),
              HasSubstr("a bad label"));
  EXPECT_EQ(tries, 1);
}

}  // namespace
}  // namespace sluice
