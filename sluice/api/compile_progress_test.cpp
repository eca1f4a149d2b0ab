#include "sluice/api/compile_progress.h"

#include <gtest/gtest.h>

#include "sluice/base/console.h"
#include "sluice/base/error.h"

namespace sluice {
namespace {

using Style = CompileProgress::Style;
using std::chrono::milliseconds;

/// A clock that the test moves, and what was written.
struct Bench {
  CompileProgress::Clock::time_point time;
  std::string output;

  CompileProgress make(Style style) {
    return {style, [this](std::string_view text) { output += text; }, [this] { return time; }};
  }
};

/// Phase p takes (p + 1) x 10 s.
void runAll(Bench& bench, CompileProgress& progress) {
  for (int p = 0; p < static_cast<int>(kCompilePhases); ++p) {
    progress.begin(static_cast<CompilePhase>(p));
    bench.time += std::chrono::seconds(10 * (p + 1));
  }
  progress.finish();
}

TEST(CompileProgress, WritesOneLineWhereThereIsNoTerminal) {
  Bench bench;
  {
    CompileProgress progress = bench.make(Style::Line);
    runAll(bench, progress);
    EXPECT_EQ(progress.seconds(), 210);
  }
  EXPECT_EQ(bench.output,
            "Graph compilation: 100/100 [03:30<00:00] trace 10000 ms, passes 20000 ms, plan 30000 "
            "ms, lower 40000 ms, verify 50000 ms, load 60000 ms\n");
}

TEST(CompileProgress, DrawsEveryPhaseAgainOnATerminal) {
  Bench bench;
  CompileProgress progress = bench.make(Style::Redraw);
  progress.begin(CompilePhase::Trace);
  EXPECT_EQ(bench.output, "\r\033[KGraph compilation: 0/100 [00:00<?] trace");
  bench.output.clear();
  bench.time += milliseconds(4'000);
  progress.begin(CompilePhase::Passes);  // begins at 2 of 100, so 196 s of 200 are left
  EXPECT_EQ(bench.output, "\r\033[KGraph compilation: 2/100 [00:04<03:16] passes");
  bench.output.clear();
  progress.finish();
  EXPECT_EQ(bench.output,
            "\r\033[KGraph compilation: 100/100 [00:04<00:00] trace 4000 ms, passes 0 ms, plan 0 "
            "ms, lower 0 ms, verify 0 ms, load 0 ms\n");
}

TEST(CompileProgress, StaysBelowTheWidthOfTheTerminal) {
  Bench bench;
  CompileProgress progress = bench.make(Style::Redraw);
  progress.limitTo([] { return 25; });
  progress.begin(CompilePhase::Trace);
  EXPECT_EQ(bench.output, "\r\033[KGraph compilation: 0/100");
  bench.output.clear();
  progress.finish();
  EXPECT_EQ(bench.output, "\r\033[KGraph compilation: 100/1\n");
}

TEST(CompileProgress, TakesBackTheLineOfACompilationThatFailed) {
  Bench bench;
  {
    CompileProgress progress = bench.make(Style::Redraw);
    progress.begin(CompilePhase::Lower);
    bench.output.clear();
  }
  EXPECT_EQ(bench.output, "\r\033[K");
}

TEST(CompileProgress, IsShownOnATerminalOrWhenItIsAskedFor) {
  EXPECT_EQ(CompileProgress::styleFor(std::nullopt, true), Style::Redraw);
  EXPECT_EQ(CompileProgress::styleFor(std::nullopt, false), Style::Silent);
  EXPECT_EQ(CompileProgress::styleFor(true, true), Style::Redraw);
  EXPECT_EQ(CompileProgress::styleFor(true, false), Style::Line);
  EXPECT_EQ(CompileProgress::styleFor(false, true), Style::Silent);
  EXPECT_EQ(CompileProgress::styleFor(false, false), Style::Silent);
}

TEST(CompileProgress, IsSilentWhenItIsNotWanted) {
  Bench bench;
  {
    CompileProgress progress = bench.make(Style::Silent);
    runAll(bench, progress);
  }
  EXPECT_EQ(bench.output, "");
}

TEST(CompileProgress, WritesToTheConsoleThatWasSetAndStopsIfItSaysSo) {
  std::string text;
  bool stop = false;
  setConsole({.write = [&](std::string_view part) { text += part; },
              .redraws = true,
              .betweenPhases =
                  [&] {
                    if (stop) {
                      throw Cancelled("enough");
                    }
                  }});
  CompileProgress progress(std::nullopt);
  progress.begin(CompilePhase::Trace);
  EXPECT_NE(text.find("Graph compilation: 0/100"), std::string::npos) << text;
  stop = true;
  EXPECT_THROW(progress.begin(CompilePhase::Passes), Cancelled);
  setConsole({});
}

}  // namespace
}  // namespace sluice
