#include "sluice/profile/trace.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "tests/support/two_stage_program.h"

namespace sluice::profile {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

/// Events of one phase: X slices, M names, s and f the ends of arrows.
std::vector<json> eventsOf(const Trace& trace, std::string_view phase) {
  std::vector<json> events;
  const json document = json::parse(perfettoJson(std::span(&trace, 1)));
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == phase) {
      events.push_back(event);
    }
  }
  return events;
}

TEST(Trace, SumsUpWhatEachDeviceDid) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes());
  const DeviceUse first{
      .span = 1350, .busy = 800, .longestWait = 100, .waitBefore = "forward 0 m0"};
  const DeviceUse second{.span = 1350,
                         .busy = 500,
                         .transfers = 2,
                         .transferBytes = 200,
                         .transferTime = 100,
                         .longestWait = 600,
                         .waitBefore = "forward 1 m0"};
  EXPECT_THAT(trace.usage(), ElementsAre(first, second));
  EXPECT_DOUBLE_EQ(trace.usage()[0].busyShare(), 800.0 / 1350);
  EXPECT_DOUBLE_EQ(trace.usage()[1].bubble(), 850.0 / 1350);
}

TEST(Trace, AddsStepsWithoutTheTimeBetweenThem) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes(1000));
  trace.addStep(twoStageTimes(90'000));
  EXPECT_EQ(trace.numSteps(), 2);
  const std::vector<DeviceUse> uses = trace.usage();
  EXPECT_EQ(uses[0].span, 2700);
  EXPECT_EQ(uses[0].busy, 1600);
  EXPECT_EQ(uses[1].longestWait, 600);
}

TEST(Trace, PrintsATableOfTheDevices) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes());
  EXPECT_EQ(trace.summary(),
            "two: 1 step of 0.001 ms, 2 micro-batches per round\n"
            "device    busy  bubble  copies in       bytes    time of copies  longest wait\n"
            "0        59.3%   40.7%          0         0 B          0.000 ms  0.000 ms before "
            "forward 0 m0\n"
            "1        37.0%   63.0%          2       200 B          0.000 ms  0.001 ms before "
            "forward 1 m0\n");
}

TEST(Trace, HasASliceForEveryTaskOfEveryRound) {
  Trace trace(twoStageProgram());
  std::vector<runtime::TaskTime> times = twoStageTimes(1000, 0);
  for (const runtime::TaskTime& time : twoStageTimes(3000, 1)) {
    times.push_back(time);
  }
  trace.addStep(times);
  std::multiset<std::string> names;
  for (const json& slice : eventsOf(trace, "X")) {
    names.insert(slice.at("name"));
  }
  std::multiset<std::string> expected;
  for (const char* name : {"feed x m0",
                           "feed x m1",
                           "forward 0 m0",
                           "forward 0 m1",
                           "transfer h m0",
                           "transfer h m1",
                           "forward 1 m0",
                           "forward 1 m1",
                           "update 0",
                           "drain y m0",
                           "drain y m1"}) {
    expected.insert({name, name});  // two rounds
  }
  EXPECT_EQ(names, expected);
}

TEST(Trace, GivesASliceItsPlaceTimeAndArguments) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes(1000, 0));
  trace.addStep(twoStageTimes(9000, 0));
  const std::vector<json> slices = eventsOf(trace, "X");
  const json wanted = {{"ph", "X"},
                       {"name", "forward 1 m1"},
                       {"cat", "forward"},
                       {"pid", 1},
                       {"tid", 3},
                       {"ts", 9.0},  // microseconds from the first task of the trace
                       {"dur", 0.2},
                       {"args", {{"step", 1}, {"round", 0}, {"stage", 1}, {"microBatch", 1}}}};
  EXPECT_EQ(std::ranges::count(slices, wanted), 1);
  const auto update =
      std::ranges::find(slices, "update 0", [](const json& s) { return s["name"]; });
  ASSERT_NE(update, slices.end());
  EXPECT_EQ(update->at("args"), json({{"step", 0}, {"round", 0}}));
}

TEST(Trace, NamesDevicesAndLanes) {
  const Trace trace(twoStageProgram());
  std::map<std::pair<int, int>, std::string> lanes;
  std::map<int, std::string> devices;
  for (const json& event : eventsOf(trace, "M")) {
    const int device = event.at("pid");
    if (event.at("name") == "thread_name") {
      lanes[{device, event.at("tid").get<int>()}] = event.at("args").at("name");
    } else if (event.at("name") == "process_name") {
      devices[device] = event.at("args").at("name");
    }
  }
  EXPECT_EQ(devices, (std::map<int, std::string>{{0, "device 0"}, {1, "device 1"}}));
  EXPECT_EQ(lanes,
            (std::map<std::pair<int, int>, std::string>{{{0, 0}, "load"},
                                                        {{0, 1}, "compute"},
                                                        {{1, 2}, "exchange from 0"},
                                                        {{1, 3}, "compute"},
                                                        {{1, 4}, "store"}}));
}

TEST(Trace, DrawsAnArrowFromTheKernelsToTheirTransfer) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes());
  const std::vector<json> begins = eventsOf(trace, "s");
  const std::vector<json> ends = eventsOf(trace, "f");
  ASSERT_EQ(begins.size(), 2U);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(begins[1].at("id"), ends[1].at("id"));
  EXPECT_NE(begins[0].at("id"), begins[1].at("id"));
  EXPECT_EQ(begins[1].at("tid"), 1);
  EXPECT_EQ(begins[1].at("ts"), 0.5);  // forward 0 m1
  EXPECT_EQ(ends[1].at("tid"), 2);
  EXPECT_EQ(ends[1].at("ts"), 0.9);  // transfer h m1
}

TEST(Trace, HasTheDevicesOfAllReplicas) {
  Trace trace(twoStageProgram());
  std::vector<runtime::TaskTime> times = twoStageTimes();
  for (runtime::TaskTime time : twoStageTimes(1100)) {  // the second one is 100 ns behind
    time.replica = 1;
    times.push_back(time);
  }
  trace.addStep(times);
  const std::vector<DeviceUse> uses = trace.usage();
  ASSERT_EQ(uses.size(), 4U);
  for (const DeviceUse& use : uses) {
    EXPECT_EQ(use.span, 1450);
  }
  EXPECT_EQ(uses[0].busy, 800);
  EXPECT_EQ(uses[2].busy, 800);
  EXPECT_EQ(uses[1].longestWait, 600);
  EXPECT_EQ(uses[3].longestWait, 700);
  EXPECT_EQ(uses[3].transferBytes, 200);
  EXPECT_NE(trace.summary().find("\n1/1 "), std::string::npos) << trace.summary();
  std::map<int, int> slices;
  for (const json& slice : eventsOf(trace, "X")) {
    ++slices[slice.at("pid").get<int>()];
  }
  EXPECT_EQ(slices, (std::map<int, int>{{0, 4}, {1, 7}, {2, 4}, {3, 7}}));
  std::map<int, std::string> names;
  for (const json& event : eventsOf(trace, "M")) {
    if (event.at("name") == "process_name") {
      names[event.at("pid").get<int>()] = event.at("args").at("name");
    }
  }
  EXPECT_EQ(names,
            (std::map<int, std::string>{
                {0, "device 0/0"}, {1, "device 0/1"}, {2, "device 1/0"}, {3, "device 1/1"}}));
  EXPECT_EQ(eventsOf(trace, "s").size(), 4U);  // arrows stay in their replica
  EXPECT_EQ(eventsOf(trace, "s")[0].at("pid").get<int>(), 0);
}

TEST(Trace, OfAProgramWithStrangeNamesIsStillJson) {
  program::Program program = twoStageProgram();
  program.feeds[0].name = "a\"b\\c\n\xff";
  Trace trace(program);
  trace.addStep(twoStageTimes());
  EXPECT_EQ(eventsOf(trace, "X").size(), 11U);
}

TEST(Trace, RefusesTimesOfAnotherProgram) {
  Trace trace(twoStageProgram());
  for (const runtime::TaskTime& time : {runtime::TaskTime{5, 0, 0, 1, 2},
                                        runtime::TaskTime{0, 2, 0, 1, 2},
                                        runtime::TaskTime{0, 0, 0, 2, 1}}) {
    EXPECT_THROW(trace.addStep(std::span(&time, 1)), InternalError);
  }
  EXPECT_EQ(trace.numSteps(), 0);
}

TEST(Trace, OfSeveralRunsIsPutOnOneAbsoluteTime) {
  std::vector<Trace> traces(2, Trace(twoStageProgram()));
  traces[0].addStep(twoStageTimes(1000));
  traces[0].toUnix = 50'000;  // begins at 51'000
  traces[1].addStep(twoStageTimes(7000));
  traces[1].toUnix = 40'000;  // begins at 47'000
  std::map<int, double> firstStart;
  const json document = json::parse(perfettoJson(traces));
  for (const json& event : document.at("traceEvents")) {
    if (event.at("name") == "feed x m0") {
      firstStart[event.at("pid").get<int>()] = event.at("ts");
    }
  }
  EXPECT_EQ(firstStart, (std::map<int, double>{{0, 4.0}, {2, 0.0}}));
  const std::string csv = traceCsv(traces);
  EXPECT_THAT(csv, ::testing::HasSubstr("two,0,0,0,load,feed x m0,feed,-1,0,100,4000,4100\n"));
  EXPECT_THAT(csv, ::testing::HasSubstr("two,0,0,1,compute,update 0,update,-1,-1,0,1200,1300\n"));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 2 * 11);
}

TEST(Trace, QuotesNamesInCsv) {
  program::Program program = twoStageProgram();
  program.feeds[0].name = "a,\"b\"";
  Trace trace(program);
  trace.addStep(twoStageTimes());
  EXPECT_THAT(traceCsv(std::span(&trace, 1)),
              ::testing::HasSubstr(",\"feed a,\"\"b\"\" m0\",feed,"));
}

TEST(Trace, WithoutStepsIsEmpty) {
  const Trace trace(twoStageProgram());
  EXPECT_TRUE(eventsOf(trace, "X").empty());
  EXPECT_EQ(trace.usage()[0], DeviceUse{});
  EXPECT_EQ(trace.usage()[0].bubble(), 0);
}

}  // namespace
}  // namespace sluice::profile
