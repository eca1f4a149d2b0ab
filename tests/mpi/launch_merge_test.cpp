#include "cli/launch_merge.h"

#include <string>

#include <gtest/gtest.h>

#include "cli/launch_lines.h"

namespace sluice::cli {
namespace {

using Clock = MergedLines::Clock;
using std::chrono::milliseconds;

const Clock::time_point kBegin{};
constexpr milliseconds kPatience{500};

TEST(LineFilter, ReplacesWholeLinesOfAnyPieces) {
  LineFilter filter([](const std::string& line) { return "> " + line; });
  EXPECT_EQ(filter.add("on"), "");
  EXPECT_EQ(filter.add("e\ntwo\n\nthr"), "> one\n> two\n> \n");
  EXPECT_EQ(filter.add("ee"), "");
  EXPECT_EQ(filter.rest(), "> three\n");
  EXPECT_EQ(filter.rest(), "");
}

TEST(LineFilter, CutsALineThatDoesNotEnd) {
  std::size_t lines = 0;
  LineFilter filter(
      [&](const std::string& line) {
        ++lines;
        EXPECT_EQ(line, std::string(10, 'x') + "\n");
        return line;
      },
      10);
  for (int piece = 0; piece < 100; ++piece) {
    filter.add("xxxxx");
  }
  EXPECT_EQ(lines, 50U);
  EXPECT_EQ(filter.rest(), "");
}

TEST(RankNames, AreRuns) {
  EXPECT_EQ(rankNames({2}), "rank 2");
  EXPECT_EQ(rankNames({0, 1, 2, 3}), "ranks 0 to 3");
  EXPECT_EQ(rankNames({0, 2, 3, 7}), "ranks 0, 2 to 3, 7");
}

TEST(MergedLines, WhatAllRanksSayAppearsOnceAndAtOnce) {
  MergedLines lines(3, kPatience);
  lines.add("rank 1: no\n", kBegin);
  lines.add("rank 0: no\n", kBegin);
  EXPECT_EQ(lines.due(kBegin), "");
  lines.add("rank 2: no\n", kBegin);
  EXPECT_EQ(lines.due(kBegin), "ranks 0 to 2: no\n");
  EXPECT_EQ(lines.rest(), "");
}

TEST(MergedLines, WhatOneRankSaysWaitsForAWhile) {
  MergedLines lines(2, kPatience);
  lines.add("rank 1: alone\n", kBegin);
  EXPECT_EQ(lines.due(kBegin + milliseconds(499)), "");
  EXPECT_EQ(lines.due(kBegin + milliseconds(500)), "rank 1: alone\n");
  lines.add("rank 0: alone\n", kBegin + milliseconds(501));  // too late
  EXPECT_EQ(lines.rest(), "rank 0: alone\n");
}

TEST(MergedLines, LinesOfARankStayInTheirOrder) {
  MergedLines lines(2, kPatience);
  lines.add("rank 0: a\n", kBegin);
  lines.add("rank 0: b\n", kBegin);
  lines.add("rank 1: b\n", kBegin);
  lines.add("rank 1: a\n", kBegin);  // after its b: another line
  EXPECT_EQ(lines.rest(), "rank 0: a\nranks 0 to 1: b\nrank 1: a\n");
}

TEST(MergedLines, ARankThatRepeatsItselfHasTwoLines) {
  MergedLines lines(2, kPatience);
  for (const char* line : {"rank 0: a\n", "rank 0: a\n", "rank 1: a\n", "rank 1: a\n"}) {
    lines.add(line, kBegin);
  }
  EXPECT_EQ(lines.rest(), "ranks 0 to 1: a\nranks 0 to 1: a\n");
}

TEST(MergedLines, OtherLinesAreLeftAsTheyAre) {
  MergedLines lines(2, kPatience);
  lines.add("mpirun has noticed something\n", kBegin);
  lines.add("rank x: no rank\n", kBegin);
  EXPECT_EQ(lines.due(kBegin), "mpirun has noticed something\nrank x: no rank\n");
}

}  // namespace
}  // namespace sluice::cli
