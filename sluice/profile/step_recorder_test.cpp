#include "sluice/profile/step_recorder.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "sluice/profile/trace_file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/two_stage_program.h"

namespace sluice::profile {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

StepRecorder::ProgramPtr loadedProgram() {
  return std::make_shared<const runtime::LoadedProgram>(twoStageProgram());
}

void record(StepRecorder& recorder, const StepRecorder::ProgramPtr& program, std::int64_t start) {
  *recorder.begin() = twoStageTimes(start);
  recorder.end(program);
}

/// Steps in a trace: one more than the largest number of a slice.
int stepsIn(const fs::path& path) {
  std::ifstream file(path);
  int steps = 0;
  const nlohmann::json document = nlohmann::json::parse(file);
  for (const auto& event : document.at("traceEvents")) {
    if (event.at("ph") == "X") {
      steps = std::max(steps, event.at("args").at("step").get<int>() + 1);
    }
  }
  return steps;
}

TEST(StepRecorder, TracesTheFirstStepsOfEachProgram) {
  const TempFolder parent;
  const fs::path folder = parent / "deep" / "training";
  StepRecorder recorder(folder, 2);
  const StepRecorder::ProgramPtr first = loadedProgram();
  const StepRecorder::ProgramPtr second = loadedProgram();
  record(recorder, first, 0);
  EXPECT_EQ(stepsIn(folder / "trace.json"), 1);
  record(recorder, first, 10'000);
  record(recorder, second, 20'000);
  record(recorder, first, 30'000);
  EXPECT_EQ(stepsIn(folder / "trace.json"), 2);
  EXPECT_EQ(stepsIn(folder / "trace_2.json"), 1);
  EXPECT_EQ(readTrace(folder / "run.slt").numSteps(), 2);
  EXPECT_EQ(readTrace(folder / "run_2.slt").numSteps(), 1);
  EXPECT_GT(readTrace(folder / "run.slt").toUnix, 0);
  EXPECT_TRUE(fs::exists(folder / "summary.txt"));
  EXPECT_TRUE(fs::exists(folder / "summary_2.txt"));
}

/// A program that has ended is asked for nothing, and the next one has its files.
TEST(StepRecorder, GivesThePlaceOfAProgramThatHasEndedToTheNext) {
  const TempFolder folder;
  StepRecorder recorder(folder.path(), 2);
  const StepRecorder::ProgramPtr kept = loadedProgram();
  record(recorder, kept, 0);
  for (int i = 0; i < 4; ++i) {
    const StepRecorder::ProgramPtr program = loadedProgram();
    record(recorder, program, 10'000);
    record(recorder, program, 20'000);
    EXPECT_EQ(recorder.traces().size(), 2U);
    EXPECT_EQ(recorder.program(1), program);
    EXPECT_EQ(stepsIn(folder / "trace_2.json"), 2);
  }
  EXPECT_EQ(recorder.program(0), kept);
  EXPECT_EQ(recorder.program(1), nullptr);
  EXPECT_FALSE(fs::exists(folder / "run_3.slt"));
  EXPECT_DOUBLE_EQ(recorder.latencies().value().roundTrip.max, 1250e-9);
}

TEST(StepRecorder, KeepsTheLatenciesOfTheNewestStep) {
  const TempFolder folder;
  StepRecorder recorder(folder.path(), 0);
  EXPECT_FALSE(recorder.latencies().has_value());
  const StepRecorder::ProgramPtr program = loadedProgram();
  record(recorder, program, 0);
  EXPECT_DOUBLE_EQ(recorder.latencies().value().roundTrip.max, 1250e-9);
  *recorder.begin() = {{0, 0, 0, 0, 7}, {4, 0, 0, 10, 20}};
  recorder.end(program);
  EXPECT_DOUBLE_EQ(recorder.latencies().value().roundTrip.max, 20e-9);
  EXPECT_DOUBLE_EQ(recorder.latencies().value().compute.max, 3e-9);  // nobody made it: taken at 10
}

TEST(StepRecorder, RefusesAFolderThatCannotBeMade) {
  const TempFolder folder;
  const fs::path path = folder / "refused";
  std::ofstream(path) << "a file";
  try {
    const StepRecorder recorder(path / "training");
    ADD_FAILURE() << "made a folder below a file";
  } catch (const FileError& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("profile folder"));
  }
}

TEST(StepRecorder, SaysWhichTraceCannotBeWritten) {
  const TempFolder parent;
  const fs::path folder = parent / "gone";
  StepRecorder recorder(folder);
  fs::remove_all(folder);
  const StepRecorder::ProgramPtr program = loadedProgram();
  try {
    record(recorder, program, 0);
    ADD_FAILURE() << "wrote into a folder that is gone";
  } catch (const FileError& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("run.slt"));
  }
}

}  // namespace
}  // namespace sluice::profile
