#include "sluice/profile/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/atomic_file.h"
#include "sluice/base/byte_code.h"
#include "sluice/base/error.h"
#include "sluice/profile/explain.h"
#include "sluice/profile/latency.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"
#include "tests/support/two_stage_program.h"

namespace sluice::profile {
namespace {

using sluice::testing::TempFolder;
using ::testing::HasSubstr;

/// Two steps; the second one has two replicas and begins earlier.
Trace twoSteps() {
  Trace trace(twoStageProgram({.every = 2}));
  trace.addStep(twoStageTimes(1000));
  std::vector<runtime::TaskTime> times = twoStageTimes(-90'000);
  for (runtime::TaskTime time : twoStageTimes(-89'950)) {
    time.replica = 1;
    times.push_back(time);
  }
  trace.addStep(times);
  for (TracedSubject& subject : trace.subjects) {
    subject.kernels = {
        {.name = "fc (matmul, panels)", .flops = 2000, .bytes = 300, .limit = 41'000},
        {.name = "relu (relu, block)"}};
  }
  trace.addKernels({{.lane = 1, .task = 1, .round = 1, .kernel = 1, .start = -80, .end = -70},
                    {.lane = 1, .replica = 1, .start = -89'900, .end = -89'000}});
  trace.toUnix = 1'600'000'000'000'000'000;
  trace.simulated = "ipu2";
  trace.devices[0] = {.ownBytes = 1, .stateBytes = 2, .transientBytes = 3};
  trace.buffers = {{.name = "h", .device = 1, .bytes = 100, .slots = 2}};
  trace.subjects[1].touches = {{.buffer = 0, .writes = true}};
  trace.lanes[1].tasks[1].slots = {{.buffer = program::BufferId(std::size_t{0}), .slot = 1}};
  return trace;
}

std::string refusalOf(std::string_view bytes) {
  try {
    parseTrace(bytes, "run.slt");
  } catch (const FileError& error) {
    EXPECT_THAT(error.message(), HasSubstr("run.slt"));
    return error.message();
  }
  return "accepted";
}

TEST(TraceFile, GivesBackWhatWasWritten) {
  const TempFolder folder;
  const Trace trace = twoSteps();
  writeTrace(folder / "run.slt", trace);
  const Trace back = readTrace(folder / "run.slt");
  EXPECT_EQ(traceBytes(back), traceBytes(trace));
  EXPECT_EQ(perfettoJson(std::span(&back, 1)), perfettoJson(std::span(&trace, 1)));
  EXPECT_EQ(back.summary(), trace.summary());
  EXPECT_EQ(back.toUnix, trace.toUnix);
  EXPECT_EQ(back.simulated, "ipu2");
  EXPECT_EQ(back.replicas, 2);
  EXPECT_EQ(back.subjects[1].touches, trace.subjects[1].touches);
  EXPECT_EQ(back.slotOf(back.lanes[1].tasks[1], 0, 1), 1);  // (1 + 1 x 2) % 2
  EXPECT_EQ(back.lanes[3].tasks[1].waits, trace.lanes[3].tasks[1].waits);
  EXPECT_EQ(back.devices[0].transientBytes, 3);
  ASSERT_EQ(back.kernels.size(), 2U);
  EXPECT_TRUE(back.kernels[0].empty());
  EXPECT_EQ(back.kernels[1], trace.kernels[1]);
  EXPECT_EQ(back.kernels[1][0].start, -89'900);
  EXPECT_EQ(back.subjects[1].kernels, trace.subjects[1].kernels);
}

TEST(TraceFile, OfAnEmptyTraceCanBeRead) {
  const Trace back = parseTrace(traceBytes(Trace(twoStageProgram())), "run.slt");
  EXPECT_EQ(back.numSteps(), 0);
  EXPECT_EQ(back.lanes.size(), 5U);
}

TEST(TraceFile, CutAtAnyByteIsRefused) {
  const std::string bytes = traceBytes(twoSteps());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string message = refusalOf(std::string_view(bytes).substr(0, size));
    EXPECT_THAT(message, HasSubstr(size == 0 ? "not a trace file" : "truncated")) << size;
  }
  EXPECT_THAT(refusalOf(bytes + "x"), HasSubstr("too long"));
}

TEST(TraceFile, WithOneWrongBitIsRefused) {
  const std::string bytes = traceBytes(twoSteps());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string wrong = bytes;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1U << (bit % 8)));
    EXPECT_NE(refusalOf(wrong), "accepted") << bit;
  }
}

TEST(TraceFile, OfAnotherVersionOrKindIsNamed) {
  std::string bytes = traceBytes(twoSteps());
  EXPECT_THAT(refusalOf("{\"traceEvents\":[]}"), HasSubstr("not a trace file"));
  bytes[8] = 9;
  EXPECT_THAT(refusalOf(bytes), HasSubstr("version 9"));
}

TEST(TraceFile, WithAWrongNumberIsRefused) {
  const auto refusalWith = [](auto change) {
    Trace trace = twoSteps();
    change(trace);
    return refusalOf(traceBytes(trace));  // its checksum is right
  };
  EXPECT_THAT(refusalWith([](Trace& t) { t.lanes[0].device = 2; }), HasSubstr("a device is 2"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.lanes[1].tasks[0].waits[0].task = 7; }),
              HasSubstr("waits for task 7"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.lanes[0].tasks[0].waits = {{.lane = 1, .task = 0}}; }),
              HasSubstr("in a circle"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.lanes[1].tasks[0].subject = 99; }),
              HasSubstr("a subject is 99"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.lanes[1].tasks[0].microBatch = -1; }),
              HasSubstr("a micro-batch is -1"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.buffers[0].slots = 0; }), HasSubstr("number of slots"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.kernels[1][0].kernel = 2; }),
              HasSubstr("a kernel is 2"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.kernels[1][0].replica = 2; }),
              HasSubstr("a replica is 2"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.kernels[1][0].end = std::int64_t{1} << 62; }),
              HasSubstr("impossible time"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.replicas = 9; }), HasSubstr("9 replicas"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.steps[0][0].start = std::int64_t{1} << 62; }),
              HasSubstr("begin of a task"));
  EXPECT_THAT(refusalWith([](Trace& t) {
                for (runtime::TaskTime& time : t.steps[0]) {
                  time.end = time.start + (std::int64_t{1} << 59);
                }
              }),
              HasSubstr("impossible end"));
  EXPECT_THAT(refusalWith([](Trace& t) { t.steps[1].back().start -= std::int64_t{1} << 60; }),
              HasSubstr("impossibl"));
}

TEST(TraceFile, WithVeryLateRoundsTakesLittleMemory) {
  Trace trace(twoStageProgram());
  trace.microBatchesPerRound = 1 << 29;
  std::vector<runtime::TaskTime> times = twoStageTimes(0, (1 << 30) - 1);
  trace.addStep(times);
  const Trace back = parseTrace(traceBytes(trace), "run.slt");
  EXPECT_EQ(back.steps[0][0].round, (1 << 30) - 1);
  EXPECT_EQ(explain(back).measured, 1350);
  EXPECT_EQ(measureLatencies(back, back.steps[0]).roundTrip.max, 1250e-9);
}

/// A report would have the name for every task.
TEST(TraceFile, WithLongNamesOrTouchesOfManyTasksIsRefused) {
  const auto refusalOfRuns = [](std::size_t name, std::size_t touches, std::int32_t rounds) {
    Trace trace(twoStageProgram());
    trace.buffers = {{.name = "h", .device = 1, .bytes = 100, .slots = 2}};
    for (TracedSubject& subject : trace.subjects) {
      subject.name = std::string(name, 'n');
      subject.touches.assign(touches, {.buffer = 0, .writes = true});
    }
    std::vector<runtime::TaskTime> times;
    for (std::int32_t round = 0; round < rounds; ++round) {
      const std::vector<runtime::TaskTime> more = twoStageTimes(1000 * round, round);
      times.insert(times.end(), more.begin(), more.end());
    }
    trace.addStep(times);
    return refusalOf(traceBytes(trace));
  };
  EXPECT_EQ(refusalOfRuns(200, 20, 2000), "accepted");
  EXPECT_EQ(refusalOfRuns(100'000, 10'000, 2), "accepted");
  EXPECT_THAT(refusalOfRuns(100'000, 1, 2000), HasSubstr("names are too long"));
  EXPECT_THAT(refusalOfRuns(1, 10'000, 2000), HasSubstr("touch too many buffers"));
}

/// A report would have a line for every device in every step.
TEST(TraceFile, OfManyIdleDevicesInManyStepsIsRefused) {
  const auto refusalOfSteps = [](std::size_t devices, int steps) {
    Trace trace(twoStageProgram());
    trace.devices.resize(devices);
    for (int step = 0; step < steps; ++step) {
      trace.addStep(twoStageTimes(10'000 * step));
    }
    return refusalOf(traceBytes(trace));
  };
  EXPECT_EQ(refusalOfSteps(2, 10'000), "accepted");
  EXPECT_EQ(refusalOfSteps(100'000, 2), "accepted");
  EXPECT_THAT(refusalOfSteps(100'000, 1000), HasSubstr("1000 steps of 100000 devices"));
}

TEST(TraceFile, ThatIsMissingIsNamed) {
  EXPECT_THAT(testing::messageOf<FileError>([] { readTrace("/nowhere/run.slt"); }),
              HasSubstr("/nowhere/run.slt"));
}

TEST(ByteCode, KeepsNumbersOfAllSizes) {
  ByteWriter out;
  std::vector<std::int64_t> values;
  for (unsigned shift = 0; shift < 63; ++shift) {
    for (const std::int64_t near : {-1, 0, 1}) {
      values.push_back((std::int64_t{1} << shift) + near);
      values.push_back(-(std::int64_t{1} << shift) + near);
    }
  }
  for (const std::int64_t value : values) {
    out.number(value);
  }
  ByteReader in(out.bytes(), "numbers");
  for (const std::int64_t value : values) {
    EXPECT_EQ(in.signedNumber(), value);
  }
  in.end();
}

TEST(ByteCode, RefusesNumbersThatNobodyWrites) {
  for (const std::string& bytes : {std::string("\x80\0", 2), std::string(11, '\xff')}) {
    ByteReader in(bytes, "numbers");
    EXPECT_THROW(in.number(), FileError);
  }
}

}  // namespace
}  // namespace sluice::profile
