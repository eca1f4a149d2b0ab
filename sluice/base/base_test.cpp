#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/ids.h"
#include "sluice/base/log.h"
#include "sluice/base/name_pattern.h"
#include "sluice/base/near_names.h"

namespace sluice {
namespace {

TEST(Error, ShowsTypeMessageAndTheInnermostPlaceFirst) {
  try {
    try {
      raise<InvalidArgument>("axis {} is out of range", 3);
    } catch (Error& error) {
      error.at("op softmax");
      error.at("pass fold");
      throw;
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.type(), "InvalidArgument");
    EXPECT_EQ(error.location(), "op softmax, pass fold");
    EXPECT_EQ(std::string(error.what()),
              "InvalidArgument: axis 3 is out of range (in op softmax, pass fold)");
  }
}

TEST(Error, AFailedCheckIsAnInternalErrorThatNamesTheCondition) {
  try {
    SLUICE_CHECK(1 + 1 == 3, "sum was {}", 2);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(error.message().find("1 + 1 == 3"), std::string::npos);
    EXPECT_NE(error.message().find("sum was 2"), std::string::npos);
  }
}

TEST(Hasher, DependsOnOrderLengthAndEveryByte) {
  const auto hash = [](auto... parts) {
    Hasher h;
    (h.add(parts), ...);
    return h.digest();
  };
  EXPECT_EQ(hash("ab", 1), hash("ab", 1));
  EXPECT_NE(hash("ab", "c"), hash("a", "bc"));
  EXPECT_NE(hash(1, 2), hash(2, 1));
  EXPECT_NE(hash("123456789"), hash("123456780"));
}

TEST(Id, DefaultIsInvalid) {
  using TestId = Id<struct TestTag>;
  EXPECT_FALSE(TestId().valid());
  EXPECT_TRUE(TestId(0).valid());
  EXPECT_LT(TestId(1), TestId(2));
}

TEST(NamePattern, StarsStandForAnyText) {
  EXPECT_TRUE(matchesPattern("layer1.weight", "layer1.weight"));
  EXPECT_FALSE(matchesPattern("layer1.weight", "layer1"));
  EXPECT_TRUE(matchesPattern("layer1.weight", "layer1.*"));
  EXPECT_TRUE(matchesPattern("layer1.weight", "*weight"));
  EXPECT_TRUE(matchesPattern("a.b.a.c", "a*a*"));
  EXPECT_TRUE(matchesPattern("aab", "*ab"));
  EXPECT_FALSE(matchesPattern("aab", "*ab?"));
  EXPECT_TRUE(matchesPattern("abc", "**"));
  EXPECT_TRUE(matchesPattern("", "*"));
  EXPECT_FALSE(matchesPattern("", "a"));
  EXPECT_FALSE(matchesPattern("abc", ""));
}

TEST(NearNames, AreThoseThatASlipExplains) {
  EXPECT_EQ(editDistance("kitten", "sitting"), 3U);
  EXPECT_EQ(editDistance("Threads", "threads"), 0U);
  EXPECT_EQ(editDistance("", "abc"), 3U);
  EXPECT_EQ(editDistance("abc", "ab"), 1U);
  const std::vector<std::string_view> names = {
      "threads", "training.threads", "fusion", "replicationFactor"};
  using List = std::vector<std::string_view>;
  EXPECT_EQ(nearNames("treads", names), (List{"threads", "training.threads"}));
  EXPECT_EQ(nearNames("Training.threds", names), (List{"training.threads", "threads"}));
  EXPECT_EQ(nearNames("replication_factor", names), List{"replicationFactor"});
  EXPECT_EQ(nearNames("speed", names), List());
  EXPECT_EQ(nearNames("", names), List());
  EXPECT_EQ(nearNames("f", names), List());
  EXPECT_EQ(didYouMean("treads", names), " (did you mean 'threads' or 'training.threads'?)");
  EXPECT_EQ(didYouMean("speed", names), "");
}

TEST(Log, LevelsAreParsedByNameAndNumberAndFilterPerModule) {
  EXPECT_EQ(log::parseLevel("WARN"), log::Level::Warn);
  EXPECT_EQ(log::parseLevel("4"), log::Level::Error);
  try {
    log::parseLevel("wrong");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(error.message().find("TRACE"), std::string::npos);
  }
  log::setLevels("schedule:debug,*:warn");
  EXPECT_TRUE(log::enabled("schedule", log::Level::Debug));
  EXPECT_FALSE(log::enabled("engine", log::Level::Info));
  log::setLevels(4);
  EXPECT_FALSE(log::enabled("schedule", log::Level::Warn));
  EXPECT_TRUE(log::enabled("schedule", log::Level::Error));
  EXPECT_THROW(log::setLevels(5), InvalidArgument);
  log::setLevels("info");
  EXPECT_TRUE(log::enabled("engine", log::Level::Info));
}

/// SLUICE_LOG_DEST counts once, at the first line: each test needs a process of its own, which
/// writes a line and leaves.
class LogDestinationDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  [[noreturn]] static void logTo(const std::string& where) {
    ::setenv("SLUICE_LOG_DEST", where.c_str(), 1);
    log::warn("test", "a line");
    std::exit(0);
  }
};

TEST_F(LogDestinationDeathTest, IsAFile) {
  // The child runs this test from its beginning, so both need the same name: no TempFolder.
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "sluice_log_destination.txt";
  std::filesystem::remove(path);
  EXPECT_EXIT(logTo(path.string()), ::testing::ExitedWithCode(0), "^$");
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find("[sluice] warning test: a line"), std::string::npos) << text.str();
  std::filesystem::remove(path);
}

TEST_F(LogDestinationDeathTest, IsStderrByDefaultAndNotStdoutUnlessNamed) {
  EXPECT_EXIT(logTo(""), ::testing::ExitedWithCode(0), "warning test: a line");
  EXPECT_EXIT(logTo("stderr"), ::testing::ExitedWithCode(0), "warning test: a line");
  EXPECT_EXIT(logTo("stdout"), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(LogDestinationDeathTest, ThatCannotBeWrittenIsIgnoredWithAWarning) {
  EXPECT_EXIT(logTo("/dev/null/log.txt"),
              ::testing::ExitedWithCode(0),
              "SLUICE_LOG_DEST ignored: .*/dev/null/log.txt(.|\n)*warning test: a line");
}

}  // namespace
}  // namespace sluice
