#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/base/atomic_file.h"
#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/ids.h"
#include "sluice/base/log.h"
#include "sluice/base/name_pattern.h"
#include "sluice/base/near_names.h"
#include "tests/support/temp_folder.h"

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
  EXPECT_EQ(editDistance("plna", "plan"), 1U);
  EXPECT_EQ(editDistance("ca", "abc"), 3U);  // nothing between letters that changed places
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

/// The process's log levels as they are by default, whatever a test has set.
class Log : public ::testing::Test {
 protected:
  void TearDown() override { log::setLevels("info"); }

  /// The lines that appear of one at each level.
  static std::string linesOfAllLevels() {
    ::testing::internal::CaptureStderr();
    const std::pair<log::Level, const char*> all[] = {{log::Level::Trace, "a trace"},
                                                      {log::Level::Debug, "a debug line"},
                                                      {log::Level::Info, "an info"},
                                                      {log::Level::Warn, "a warning"},
                                                      {log::Level::Error, "an error"}};
    for (const auto& [level, text] : all) {
      log::write("test", level, text);
    }
    const std::string lines = ::testing::internal::GetCapturedStderr();
    std::string found;
    for (const auto& [level, text] : all) {
      found += lines.find(text) == std::string::npos ? '-' : '+';
    }
    return found;
  }
};

TEST_F(Log, EveryLevelIsTakenByItsNameAndByItsNumber) {
  struct Case {
    const char* name;
    int number;
    log::Level level;
    const char* lines;  ///< that appear: of trace, debug, info, warn, error
  };
  for (const Case& c : {Case{"TRACE", 0, log::Level::Trace, "+++++"},
                        Case{"DEBUG", 1, log::Level::Debug, "-++++"},
                        Case{"INFO", 2, log::Level::Info, "--+++"},
                        Case{"WARN", 3, log::Level::Warn, "---++"},
                        Case{"ERR", 4, log::Level::Error, "----+"},
                        Case{"OFF", 6, log::Level::Off, "-----"}}) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(log::parseLevel(c.name), c.level);
    EXPECT_EQ(log::parseLevel(std::to_string(c.number)), c.level);
    log::setLevels(c.name);
    EXPECT_EQ(linesOfAllLevels(), c.lines);
    log::setLevels(c.number);
    EXPECT_EQ(linesOfAllLevels(), c.lines);
  }
  log::setLevels("");
  EXPECT_EQ(linesOfAllLevels(), "--+++");  // the default
  EXPECT_EQ(log::parseLevel("Error"), log::Level::Error);
}

TEST_F(Log, ALevelThatIsUnknownIsRefusedWithAListOfAll) {
  for (const char* text : {"wrong", "5", "7", "-1", ""}) {
    try {
      log::parseLevel(text);
      ADD_FAILURE() << "'" << text << "' was taken";
    } catch (const InvalidArgument& error) {
      for (const char* level : {"OFF", "ERR", "WARN", "INFO", "DEBUG", "TRACE"}) {
        EXPECT_NE(error.message().find(level), std::string::npos) << error.message();
      }
    }
  }
  EXPECT_THROW(log::setLevels(5), InvalidArgument);
  // What was set before still holds.
  log::setLevels("WARN");
  EXPECT_THROW(log::setLevels("engine:debug,*:wrong"), InvalidArgument);
  EXPECT_EQ(linesOfAllLevels(), "---++");
}

TEST(Environment, OursCountsAndOriginalsAreReadWhereItIsAbsent) {
  ::unsetenv("SLUICE_TEST_VALUE");
  ::unsetenv("POPTORCH_TEST_VALUE");
  EXPECT_EQ(environmentValue("SLUICE_TEST_VALUE", "POPTORCH_TEST_VALUE"), std::nullopt);
  ::setenv("POPTORCH_TEST_VALUE", "theirs", 1);
  EXPECT_EQ(environmentValue("SLUICE_TEST_VALUE", "POPTORCH_TEST_VALUE"), "theirs");
  EXPECT_EQ(environmentValue("SLUICE_TEST_VALUE"), std::nullopt);
  ::setenv("SLUICE_TEST_VALUE", "", 1);  // as if it were not set
  EXPECT_EQ(environmentValue("SLUICE_TEST_VALUE", "POPTORCH_TEST_VALUE"), "theirs");
  ::setenv("SLUICE_TEST_VALUE", "ours", 1);
  EXPECT_EQ(environmentValue("SLUICE_TEST_VALUE", "POPTORCH_TEST_VALUE"), "ours");
  ::unsetenv("SLUICE_TEST_VALUE");
  ::unsetenv("POPTORCH_TEST_VALUE");
}

TEST(Environment, SwitchesAreOnOrOff) {
  for (const char* on : {"1", "true", "YES", "On"}) {
    EXPECT_TRUE(isOn(on, "X")) << on;
  }
  for (const char* off : {"0", "False", "no", "OFF"}) {
    EXPECT_FALSE(isOn(off, "X")) << off;
  }
  EXPECT_THROW(isOn("2", "X"), InvalidArgument);
  EXPECT_FALSE(isSwitchedOn("SLUICE_TEST_VALUE"));
  ::setenv("SLUICE_TEST_VALUE", "0", 1);
  EXPECT_FALSE(isSwitchedOn("SLUICE_TEST_VALUE"));
  ::setenv("SLUICE_TEST_VALUE", "yes", 1);
  EXPECT_TRUE(isSwitchedOn("SLUICE_TEST_VALUE"));
  ::unsetenv("SLUICE_TEST_VALUE");
}

TEST_F(Log, LevelsFilterPerModule) {
  log::setLevels("schedule:debug,*:warn");
  EXPECT_TRUE(log::enabled("schedule", log::Level::Debug));
  EXPECT_FALSE(log::enabled("engine", log::Level::Info));
  EXPECT_TRUE(log::enabled("engine", log::Level::Warn));
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

/// SLUICE_LOG_LEVEL counts once, too.
using LogLevelDeathTest = LogDestinationDeathTest;

TEST_F(LogLevelDeathTest, ComesFromTheEnvironment) {
  const auto logAt = [](const char* level) {
    ::setenv("SLUICE_LOG_LEVEL", level, 1);
    logTo("stderr");
  };
  EXPECT_EXIT(logAt("WARN"), ::testing::ExitedWithCode(0), "warning test: a line");
  EXPECT_EXIT(logAt("3"), ::testing::ExitedWithCode(0), "warning test: a line");
  EXPECT_EXIT(logAt("ERR"), ::testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(logAt("4"), ::testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(logAt("wrong"),
              ::testing::ExitedWithCode(0),
              "SLUICE_LOG_LEVEL ignored: .*wrong(.|\n)*warning test: a line");
}

TEST_F(LogLevelDeathTest, ComesFromOriginalVariablesWhereOursAreAbsent) {
  const auto logWith = [](const char* name, const char* value) {
    ::unsetenv("SLUICE_LOG_LEVEL");
    ::setenv(name, value, 1);
    logTo("stderr");
  };
  for (const char* name : {"POPTORCH_LOG_LEVEL", "POPART_LOG_LEVEL"}) {
    EXPECT_EXIT(logWith(name, "ERR"), ::testing::ExitedWithCode(0), "^$");
    EXPECT_EXIT(logWith(name, "DEBUG"),
                ::testing::ExitedWithCode(0),
                std::string(name) + " is set and read as SLUICE_LOG_LEVEL(.|\n)*a line");
    EXPECT_EXIT(
        logWith(name, "wrong"), ::testing::ExitedWithCode(0), "_LOG_LEVEL ignored: .*wrong");
  }
}

TEST_F(LogLevelDeathTest, ComesByModuleFromJsonOrAFile) {
  const testing::TempFolder folder;
  const auto logWith = [](const char* name, const std::string& value) {
    ::unsetenv("SLUICE_LOG_LEVEL");
    ::setenv(name, value.c_str(), 1);
    logTo("stderr");
  };
  writeFileAtomically(folder / "levels.json", R"({"test": "ERR"})");
  const std::string file = (folder / "levels.json").string();
  for (const char* name : {"SLUICE_LOG_CONFIG", "POPART_LOG_CONFIG"}) {
    EXPECT_EXIT(logWith(name, R"({"test": "ERR"})"), ::testing::ExitedWithCode(0), "^$");
    EXPECT_EXIT(logWith(name, R"({"*": 6})"), ::testing::ExitedWithCode(0), "^$");
    EXPECT_EXIT(logWith(name, R"({"test": "WARN", "*": "OFF"})"),
                ::testing::ExitedWithCode(0),
                "warning test: a line");
    EXPECT_EXIT(logWith(name, R"({"test": "loud"})"),
                ::testing::ExitedWithCode(0),
                "_LOG_CONFIG ignored: .*loud(.|\n)*a line");
    EXPECT_EXIT(logWith(name, "[1"), ::testing::ExitedWithCode(0), "_LOG_CONFIG ignored");
    EXPECT_EXIT(logWith(name, "{1"), ::testing::ExitedWithCode(0), "_LOG_CONFIG ignored: .*JSON");
  }
  EXPECT_EXIT(logWith("SLUICE_LOG_CONFIG", file), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(LogDestinationDeathTest, ThatCannotBeWrittenIsIgnoredWithAWarning) {
  EXPECT_EXIT(logTo("/dev/null/log.txt"),
              ::testing::ExitedWithCode(0),
              "SLUICE_LOG_DEST ignored: .*/dev/null/log.txt(.|\n)*warning test: a line");
}

}  // namespace
}  // namespace sluice
