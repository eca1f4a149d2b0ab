#include <string>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/ids.h"
#include "sluice/base/log.h"

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
  log::setLevels("info");
  EXPECT_TRUE(log::enabled("engine", log::Level::Info));
}

}  // namespace
}  // namespace sluice
