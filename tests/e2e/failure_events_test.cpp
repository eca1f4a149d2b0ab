// What the diagnostics of a failure tell of the last tasks: a fault is thrown before a chosen task,
// and the events name this task and those that its lane ran before.
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/base/input_file.h"
#include "sluice/runtime/engine.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/strategy_cases.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using testing::BlockedGpt;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::makeInputs;
using testing::messageOf;
using testing::onOneDevice;
using testing::TempFolder;
using testing::threeStages;

constexpr std::size_t kMostEvents = 8;

/// The lines that follow the name of a lane.
std::vector<std::string> eventsOf(const std::string& text, const std::string& lane) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(' ')) {
      inside = line == lane;
    } else if (inside) {
      found.push_back(line);
    }
  }
  return found;
}

/// A training whose every step fails before one task of the first device.
struct Failing {
  Failing(const std::string& device, std::int64_t victim)
      : model(trainingModel(net, options(device, folder), optim::AdamW(0.01))) {
    const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), 0, 4);
    model.compile(inputs);
    const program::Program& program = model.program();
    while (program.lanes[lane].kind != program::LaneKind::Compute ||
           program.lanes[lane].device != 0) {
      ++lane;
    }
    model.session().engine().setBeforeTask([this, victim](std::size_t at, std::int64_t count) {
      if (at == lane && count == victim) {
        throw RecoverableError(RecoveryAction::DeviceReset, "the link is down");
      }
    });
    const std::string message = messageOf<UnrecoverableError>([&] { model.run(inputs); });
    const std::size_t begin = message.find('\'') + 1;
    const std::filesystem::path bundle = message.substr(begin, message.find('\'', begin) - begin);
    events = readFile(bundle / "events.txt");
  }

  static Options options(const std::string& device, const TempFolder& folder) {
    Options options = onOneDevice().device(device).recovery(1, 0).logDir(folder.path().string());
    options.setExecutionStrategy(PipelinedExecution(threeStages()));
    return options;
  }
  /// How the events name the task of the lane.
  std::string taskText(std::int64_t count) const {
    const program::Task& task = model.program().lanes[lane].tasks[count];
    return fmt::format("{} {} of micro-batch {}, round 0",
                       name(task.kind),
                       subjectName(model.program(), task),
                       task.microBatch);
  }

  TempFolder folder;
  BlockedGpt net;
  decltype(trainingModel(net, Options(), optim::AdamW(0.01))) model;
  std::size_t lane = 0;
  std::string events;
};

TEST(LastEvents, NameTheTaskThatFailedAndTheTimesOfThoseBefore) {
  for (const std::int64_t victim : {0, 5, 8}) {
    const Failing failing("cpu", victim);
    SCOPED_TRACE(fmt::format("task {}:\n{}", victim, failing.events));
    const std::vector<std::string> lane = eventsOf(failing.events, "compute0, replica 0");
    ASSERT_EQ(lane.size(), std::min<std::size_t>(victim + 1, kMostEvents));
    EXPECT_THAT(
        lane.back(),
        EndsWith("- " + std::string(13, ' ') + "-  " + failing.taskText(victim) + ": failed"));
    double last = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i + 1 < lane.size(); ++i) {
      const std::int64_t count = victim + 1 + static_cast<std::int64_t>(i) - std::ssize(lane);
      std::istringstream times(lane[i]);
      double began = 0;
      double ended = 0;
      ASSERT_TRUE(times >> began >> ended);
      EXPECT_LE(last, began);
      EXPECT_LE(began, ended);
      EXPECT_LE(ended, 0);
      last = ended;
      EXPECT_THAT(lane[i], EndsWith(failing.taskText(count)));
    }
    EXPECT_EQ(failing.events.find(": failed"), failing.events.rfind(": failed"));
  }
}

/// The queues of such devices come after the host: how far they are when the step is stopped is not
/// known, but what failed is.
TEST(LastEvents, NameTheTaskThatFailedOnDevicesWithQueuesOfTheirOwn) {
  const Failing failing("far", 5);
  SCOPED_TRACE(failing.events);
  const std::vector<std::string> lane = eventsOf(failing.events, "compute0, replica 0");
  ASSERT_FALSE(lane.empty());
  EXPECT_THAT(lane.back(), EndsWith(failing.taskText(5) + ": failed"));
  EXPECT_EQ(failing.events.find(": failed"), failing.events.rfind(": failed"));
}

/// The times of a step before do not count: here all its tasks had the same numbers.
TEST(LastEvents, AreThoseOfTheStepThatFailed) {
  BlockedGpt net;
  auto model = trainingModel(net, onOneDevice().recovery(1, 0), optim::AdamW(0.01));
  const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), 0, 4);
  model.run(inputs);
  runtime::Engine& engine = model.session().engine();
  EXPECT_TRUE(engine.lastEvents().empty());
  engine.setBeforeTask([](std::size_t, std::int64_t) { throw InvalidArgument("a bad label"); });
  EXPECT_THROW(model.run(inputs), InvalidArgument);
  ASSERT_FALSE(engine.lastEvents().empty());
  std::size_t failed = 0;
  for (const runtime::TaskEvent& event : engine.lastEvents()) {
    EXPECT_FALSE(event.began) << event.lane << ": " << event.task;
    failed += event.failed ? 1 : 0;
  }
  EXPECT_EQ(failed, 1U);
  engine.setBeforeTask(nullptr);
  model.run(inputs);
  EXPECT_TRUE(engine.lastEvents().empty());
}

/// Nobody would read them without Options::recovery.
TEST(LastEvents, AreNotKeptWithoutRecovery) {
  BlockedGpt net;
  auto model = trainingModel(net, onOneDevice(), optim::AdamW(0.01));
  const std::vector<HostTensor> inputs = makeInputs(BlockedGpt::inputs(), 0, 4);
  model.compile(inputs);
  model.session().engine().setBeforeTask(
      [](std::size_t, std::int64_t) { throw InvalidArgument("a bad label"); });
  EXPECT_THROW(model.run(inputs), InvalidArgument);
  EXPECT_TRUE(model.session().engine().lastEvents().empty());
}

}  // namespace
}  // namespace sluice
