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

/// Trains, with a fault before the given task of the given call; negative: none.
Bits trainedThrough(const Options& options, std::int64_t call, std::int64_t task) {
  BlockedGpt net;
  auto model = trainingModel(net, options.clone(), optim::AdamW(0.01));
  model.setLrSchedule(optim::LrSchedule::cosine(kCalls * 4));
  const auto fault = std::make_shared<Fault>(task, recoverable(RecoveryAction::DeviceReset));
  const std::int64_t perRun = model.microBatchesPerStep() * options.replicationFactor();
  for (std::int64_t i = 0; i < kCalls; ++i) {
    const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), i * perRun, perRun);
    model.compile(inputs);
    if (i == call) {
      model.session().engine().setBeforeTask(
          [fault](std::size_t lane, std::int64_t count) { (*fault)(lane, count); });
    }
    model.run(inputs);
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
