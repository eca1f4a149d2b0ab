#include "sluice/base/console.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/base/log.h"

namespace sluice {
namespace {

TEST(Console, GetsTheLinesOfTheLog) {
  std::vector<std::string> lines;
  setConsole(Console{[&](std::string_view text) { lines.emplace_back(text); }});
  log::write("engine", log::Level::Warn, "slow");
  setConsole({});
  log::write("engine", log::Level::Warn, "on stderr");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0].ends_with("[sluice] warning engine: slow\n")) << lines[0];
}

TEST(Console, MayItselfWriteToTheLog) {
  std::vector<std::string> lines;
  setConsole(Console{[&](std::string_view text) {
    lines.emplace_back(text);
    if (lines.size() == 1) {
      log::write("engine", log::Level::Warn, "inner");
    }
  }});
  log::write("engine", log::Level::Warn, "outer");
  setConsole({});
  EXPECT_EQ(lines.size(), 2U);
}

}  // namespace
}  // namespace sluice
