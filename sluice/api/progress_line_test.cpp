#include "sluice/api/progress_line.h"

#include <cstdlib>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sluice {
namespace {

const Progress kHalf{.step = 5, .steps = 10, .seconds = 1.25, .metrics = {{"Loss", 0.5}}};

TEST(ProgressLine, HasABarOfThirtyOnAWideTerminal) {
  EXPECT_EQ(progressLine(kHalf, 80), "[###############...............] 5/10 1.2s  Loss:0.5000");
}

TEST(ProgressLine, IsPlainTextWithoutATerminal) {
  EXPECT_EQ(progressLine(kHalf, std::nullopt), "5/10 1.2s  Loss:0.5000");
}

TEST(ProgressLine, StaysBelowEveryWidth) {
  Progress progress = kHalf;
  progress.metrics.emplace_back("Größe", 1);
  for (std::size_t columns = 0; columns < 90; ++columns) {
    const std::string line = progressLine(progress, columns);
    const auto characters = std::ranges::count_if(
        line, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; });
    EXPECT_LE(characters, std::max<std::int64_t>(static_cast<std::int64_t>(columns) - 1, 0))
        << columns << ": " << line;
    EXPECT_EQ(cutTo(line, 1000), line);
  }
  EXPECT_EQ(progressLine(kHalf, 31), "[##...] 5/10 1.2s  Loss:0.5000");  // 22 + 3 + 5
  EXPECT_EQ(progressLine(kHalf, 30), "5/10 1.2s  Loss:0.5000");
  EXPECT_EQ(progressLine(kHalf, 10), "5/10 1.2s");
}

TEST(ProgressLine, CutsBetweenCharacters) {
  EXPECT_EQ(cutTo("äöü", 2), "äö");
  EXPECT_EQ(cutTo("abc", 3), "abc");
  EXPECT_EQ(cutTo("abc", 0), "");
}

TEST(ProgressLine, AsksTheTerminalForItsWidth) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  winsize size{};
  size.ws_col = 37;
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(terminalWidth(terminal), 37U);
  size.ws_col = 0;
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(terminalWidth(terminal), 80U);
  close(terminal);
  const int file = open("/dev/null", O_RDONLY);
  EXPECT_EQ(terminalWidth(file), std::nullopt);
  close(file);
}

}  // namespace
}  // namespace sluice
