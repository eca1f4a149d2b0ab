#include "sluice/profile/report.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"
#include "tests/support/two_stage_program.h"

namespace sluice::profile {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TracedRun run(std::string title, std::int64_t steps = 2) {
  TracedRun made{std::move(title), Trace(twoStageProgram())};
  for (std::int64_t s = 0; s < steps; ++s) {
    made.trace.addStep(twoStageTimes(1000 + 10'000 * s));
  }
  return made;
}

std::string pageOf(const TracedRun& made) {
  return reportPage(std::span(&made, 1));
}

/// What is between the element's start and its end.
std::string dataOf(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const std::size_t from = page.find(begin) + begin.size();
  return page.substr(from, page.find("</script>", from) - from);
}

TEST(Report, IsOnePageThatLoadsNothing) {
  const std::string page = pageOf(run("first"));
  EXPECT_THAT(page, HasSubstr("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("class Timeline"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme"));
  for (const char* loaded :
       {"src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "/*DATA*/"}) {
    EXPECT_THAT(page, Not(HasSubstr(loaded))) << loaded;
  }
  EXPECT_LT(page.size(), 200'000U);
}

TEST(Report, HasTheFactsOfEveryRun) {
  const std::vector<TracedRun> runs = {run("first"), run("second", 1)};
  const json data = json::parse(reportJson(runs));
  ASSERT_EQ(data.at("runs").size(), 2U);
  const json& first = data.at("runs")[0];
  EXPECT_EQ(first.at("title"), "first");
  EXPECT_EQ(first.at("measured"), 2 * 1350);
  EXPECT_EQ(first.at("ideal"), 2 * 1100);
  for (const json& device : first.at("devices")) {
    std::int64_t sum = 0;
    for (const json& cause : device.at("causes")) {
      sum += cause.get<std::int64_t>();
    }
    EXPECT_EQ(sum, device.at("idle").get<std::int64_t>());
  }
  EXPECT_EQ(json::parse(dataOf(reportPage(runs))).at("runs")[1].at("title"), "second");
}

TEST(Report, SaysEverywhereThatARunWasSimulated) {
  TracedRun made = run("first");
  made.trace.simulated = "ipu2";
  const std::span<const TracedRun> runs(&made, 1);
  constexpr const char* kLabel = "(simulated on ipu2)";
  EXPECT_THAT(reportText(runs, 1000), HasSubstr(kLabel));
  EXPECT_THAT(reportMarkdown(runs), HasSubstr(kLabel));
  EXPECT_THAT(reportPage(runs), HasSubstr(kLabel));
  EXPECT_THAT(made.trace.summary(), HasSubstr(kLabel));
  EXPECT_THAT(perfettoJson(std::span(&made.trace, 1)), HasSubstr("device 0 (simulated on ipu2)"));
  EXPECT_THAT(traceCsv(std::span(&made.trace, 1)), HasSubstr(kLabel));
  EXPECT_EQ(json::parse(reportJson(runs)).at("runs")[0].at("simulated"), "ipu2");
  const TracedRun measured = run("second");
  EXPECT_EQ(json::parse(reportJson(std::span(&measured, 1))).at("runs")[0].at("simulated"), "");
}

/// Every task of the first stage takes twice as long as predicted.
TEST(Report, HasPredictionsBesideMeasurements) {
  TracedRun made = run("first");
  made.predicted = Trace(twoStageProgram());
  made.predicted->simulated = "measured";
  for (std::int64_t s = 0; s < 2; ++s) {
    std::vector<runtime::TaskTime> times = twoStageTimes(1000 + 10'000 * s);
    for (runtime::TaskTime& time : times) {
      const std::string name = made.predicted->nameOf(time);
      time.end -= name.starts_with("forward 0") ? (time.end - time.start) / 2 : 0;
    }
    made.predicted->addStep(times);
  }
  const std::span<const TracedRun> runs(&made, 1);
  const json facts = json::parse(reportJson(runs)).at("runs");
  ASSERT_EQ(facts.size(), 1U);
  const json& predicted = facts[0].at("predicted");
  EXPECT_EQ(predicted.at("target"), "measured");
  EXPECT_EQ(predicted.at("step").at("measured"), 1350);
  EXPECT_EQ(predicted.at("devices").size(), 2U);
  int halved = 0;
  for (const json& task : predicted.at("tasks")) {
    const auto both = task.at("measured").get<std::int64_t>();
    const bool half = task.at("what") == "forward 0";
    halved += half ? 1 : 0;
    EXPECT_EQ(task.at("predicted").get<std::int64_t>(), half ? both / 2 : both) << task;
  }
  EXPECT_EQ(halved, 1);
  for (const std::string& text : {reportText(runs), reportMarkdown(runs)}) {
    EXPECT_THAT(text, HasSubstr("Predicted by the simulator (target measured)"));
    EXPECT_THAT(text, HasSubstr("-50.0 %"));
  }
  const json data = json::parse(dataOf(reportPage(runs)));
  ASSERT_EQ(data.at("runs").size(), 2U);
  EXPECT_EQ(data.at("runs")[1].at("title"), "first (simulated on measured)");
  EXPECT_TRUE(data.at("runs")[1].at("predicted").is_null());
}

TEST(Report, AdvisesAPipelineWhereStagesTakeTurns) {
  TracedRun made = run("first");
  const std::span<const TracedRun> runs(&made, 1);
  EXPECT_THAT(reportText(runs, 1000), HasSubstr("a schedule with a smaller ramp"));
  made.trace.microBatchesPerRound = 1;
  EXPECT_THAT(reportText(runs, 1000),
              HasSubstr("is due to ramp. There is one micro-batch at a time"));
}

/// Virtual time has no time of day: such a run begins with the first one that has.
TEST(Report, PutsSimulatedRunsBesideMeasuredOnesInTime) {
  constexpr std::int64_t kUnix = 1'600'000'000'000'000'000;
  std::vector<TracedRun> runs = {run("simulated", 1), run("first", 1), run("second", 1)};
  runs[0].trace.simulated = "ipu2";
  runs[1].trace.toUnix = kUnix;
  runs[2].trace.toUnix = kUnix + 5000;
  const json data = json::parse(dataOf(reportPage(runs))).at("runs");
  EXPECT_EQ(data[0].at("clock"), 0);
  EXPECT_EQ(data[1].at("clock"), 0);
  EXPECT_EQ(data[2].at("clock"), 5000);
  const std::vector<Trace> traces = {runs[0].trace, runs[1].trace, runs[2].trace};
  const json document = json::parse(perfettoJson(traces));
  std::array<double, 3> begins;
  begins.fill(1e30);
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == "X") {
      double& begin = begins.at(event.at("pid").get<std::size_t>() / 2);  // of two devices each
      begin = std::min(begin, event.at("ts").get<double>());
    }
  }
  EXPECT_EQ(begins, (std::array<double, 3>{0, 0, 5}));
}

TEST(Report, NamesTheKernelsThatTookLongest) {
  TracedRun made = run("first", 1);
  for (TracedSubject& subject : made.trace.subjects) {
    subject.kernels = {
        {.name = "fc (matmul, panels)", .flops = 2000, .bytes = 300, .limit = 40'000},
        {.name = "relu (relu, block)", .bytes = 500}};
  }
  made.trace.addKernels({{.lane = 1, .kernel = 0, .start = 1000, .end = 1100},
                         {.lane = 1, .task = 1, .kernel = 0, .start = 1200, .end = 1260},
                         {.lane = 1, .kernel = 1, .start = 1100, .end = 1150}});
  const std::span<const TracedRun> runs(&made, 1);
  const json kernels = json::parse(reportJson(runs)).at("runs")[0].at("kernels");
  ASSERT_GE(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].at("kernel"), "fc (matmul, panels)");
  std::int64_t together = 0;
  for (const json& kernel : kernels) {
    together += kernel.at("total").get<std::int64_t>();
  }
  EXPECT_EQ(together, 100 + 60 + 50);
  // Two runs in 160 ns, each of 2000 flops and 300 bytes, for which the device needs 40 ns.
  EXPECT_EQ(kernels[0].at("total"), 160);
  EXPECT_EQ(kernels[0].at("gigaflopsPerSecond"), 25);
  EXPECT_EQ(kernels[0].at("gigabytesPerSecond"), 3.75);
  EXPECT_EQ(kernels[0].at("limitShare"), 0.5);
  const auto relu = std::ranges::find(kernels, "relu (relu, block)", [](const json& kernel) {
    return kernel.at("kernel").get<std::string>();
  });
  EXPECT_EQ(relu->at("gigabytesPerSecond"), 10);
  EXPECT_EQ(relu->at("limitShare"), 0);  // not known
  for (const std::string& text : {reportText(runs), reportMarkdown(runs)}) {
    EXPECT_THAT(text, HasSubstr("Kernels that took longest"));
    EXPECT_THAT(text, HasSubstr("relu (relu, block)"));
    EXPECT_THAT(text, HasSubstr("of limit"));
    EXPECT_THAT(text, HasSubstr("50 %"));
  }
  EXPECT_THAT(perfettoJson(std::span(&made.trace, 1)), HasSubstr("\"cat\":\"kernel\""));
}

TEST(Report, RefusesPredictionsOfOtherPrograms) {
  TracedRun made = run("first");
  made.predicted = made.trace;
  const std::span<const TracedRun> runs(&made, 1);
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { reportText(runs); }),
              HasSubstr("was measured"));
  made.predicted->simulated = "ipu2";
  const auto refusal = [&](const auto& change) {
    TracedRun other = made;
    change(*other.predicted);
    const std::span<const TracedRun> others(&other, 1);
    return testing::messageOf<InvalidArgument>([&] { reportText(others); });
  };
  EXPECT_THAT(refusal([](Trace& t) { t.microBatchesPerRound = 4; }),
              HasSubstr("4 micro-batches instead of 2"));
  EXPECT_THAT(refusal([](Trace& t) { t.subjects[0].bytes *= 2; }),
              HasSubstr("its task 'feed x' has 200 bytes instead of 100"));
  {  // copies between devices have the layouts of their kernels
    TracedRun other = made;
    for (TracedSubject& subject : other.predicted->subjects) {
      subject.bytes *= subject.kind == program::TaskKind::Transfer ? 2 : 1;
    }
    EXPECT_NO_THROW(reportText(std::span<const TracedRun>(&other, 1)));
  }
  EXPECT_THAT(
      refusal([](Trace& t) { t.buffers.push_back({.name = "w", .state = true, .bytes = 8}); }),
      HasSubstr("its variable 'w' has 8 bytes instead of 0"));
  EXPECT_THAT(refusal([](Trace& t) {
                t.steps.resize(1);
                t.steps[0].insert(t.steps[0].end(), t.steps[0].begin(), t.steps[0].end());
              }),
              HasSubstr("runs in a step instead of 2"));
  made.predicted->subjects[0].name = "another";
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { reportText(runs); }),
              HasSubstr("another program"));
  made.predicted->devices.emplace_back();
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { reportText(runs); }),
              HasSubstr("3 devices instead of 2"));
  made.predicted->steps.clear();
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { reportText(runs); }),
              HasSubstr("has no steps"));
}

TEST(Report, KeepsNamesInsideTheData) {
  TracedRun made = run("</script><script>alert(1)</script><!--");
  made.trace.subjects[0].name = "\xff<b>&\"";
  const std::string page = pageOf(made);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  const json data = json::parse(dataOf(page));
  EXPECT_EQ(data.at("runs")[0].at("title"), "</script><script>alert(1)</script><!--");
}

TEST(Report, AsTextNamesCausesStagesAndTasks) {
  const TracedRun made = run("first");
  const std::string text = reportText(std::span(&made, 1), 100);
  for (const char* part : {"two: 2 steps of 1.350 us on 2 devices",
                           "Idle time by cause, per step",
                           "imbalance",
                           "forward 0",
                           "Critical path",
                           "Latencies of a micro-batch"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

/// Names of several bytes per character keep their ends, and paragraphs go on in the next line.
TEST(Report, AsTextIsNotWiderThanAskedFor) {
  TracedRun made = run("first");
  const std::string umlauts =
      "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc";
  for (std::size_t s = 0; s < made.trace.subjects.size(); ++s) {
    made.trace.subjects[s].name =
        fmt::format("{0}{0}{0}{0} {1}{2}{1}", umlauts, s % 2 == 0 ? "" : umlauts, s);
  }
  for (const std::size_t width : {40, 64, 65, 66, 100}) {
    const std::string text = reportText(std::span(&made, 1), width);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const auto later = std::ranges::count_if(
          line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; });
      EXPECT_LE(line.size() - static_cast<std::size_t>(later), width) << line;
    }
    EXPECT_NO_THROW(static_cast<void>(json(text).dump())) << "a character is cut";
    for (std::size_t s = 0; s < made.trace.subjects.size(); s += 2) {  // their ends tell them apart
      EXPECT_THAT(text, HasSubstr(fmt::format(" {} ", s)));
    }
  }
}

TEST(Report, AsMarkdownComparesRuns) {
  TracedRun odd = run("a|b");
  odd.trace.subjects[0].name = "feed a|b";
  const std::vector<TracedRun> runs = {odd, run("second")};
  const std::string text = reportMarkdown(runs);
  EXPECT_THAT(text, HasSubstr("# Comparison\n\n| per step | a\\|b | second |\n|---|---:|---:|\n"));
  EXPECT_THAT(text, HasSubstr("| idle of all devices, ramp |"));
  EXPECT_THAT(text, HasSubstr("## Idle time by cause, per step"));
}

TEST(Report, OfARunWithoutStepsIsRefused) {
  const TracedRun empty = run("nothing.slt", 0);
  for (const auto report : {reportPage, reportMarkdown, reportJson}) {
    EXPECT_THAT(sluice::testing::messageOf([&] { report(std::span(&empty, 1)); }),
                ::testing::AllOf(HasSubstr("nothing.slt"), HasSubstr("no steps")));
  }
}

TEST(Report, IsWrittenWholeOrNotAtAll) {
  const sluice::testing::TempFolder folder;
  const TracedRun made = run("first");
  writeReport(folder / "report.html", std::span(&made, 1));
  EXPECT_EQ(std::filesystem::file_size(folder / "report.html"), pageOf(made).size());
  EXPECT_THROW(writeReport(folder / "gone" / "report.html", std::span(&made, 1)), FileError);
}

}  // namespace
}  // namespace sluice::profile
