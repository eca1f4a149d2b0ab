#include "sluice/profile/channel.h"

#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/profile/trace_file.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice::profiling {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// What is recorded is the process's; one test looks at all of it.
TEST(Channel, RecordsTracePointsOfAllThreads) {
  const sluice::testing::TempFolder folder;
  const Channel loading("loading");
  { const Tracepoint unseen = loading.tracepoint("before"); }  // nothing records yet
  EXPECT_THAT(sluice::testing::messageOf([&] { writeHostTrace(folder / "host.slt"); }),
              HasSubstr("record(true)"));
  record(true);
  EXPECT_TRUE(isRecording());
  {
    Tracepoint outer = loading.tracepoint("read");
    const Tracepoint inner = loading.tracepoint("decode");
    const Tracepoint moved = std::move(outer);
  }
  std::thread([] { const Tracepoint other = Channel("augment").tracepoint("flip"); }).join();
  record(false);
  { const Tracepoint unseen = loading.tracepoint("after"); }
  writeHostTrace(folder / "host.slt");
  const profile::Trace trace = profile::readTrace(folder / "host.slt");
  EXPECT_EQ(trace.name, "host");
  EXPECT_GT(trace.toUnix, 0);
  std::vector<std::string> names;
  for (const runtime::TaskTime& time : trace.steps.at(0)) {
    names.push_back(trace.laneOf(time).name + " " + trace.nameOf(time));
    EXPECT_LE(time.start, time.end);
  }
  EXPECT_THAT(names, UnorderedElementsAre("loading read", "loading decode", "augment flip"));
  EXPECT_THAT(profile::perfettoJson(std::span(&trace, 1)), HasSubstr("\"decode\""));
}

/// A process of its own, which the environment asks for trace points. The child runs the test from
/// its beginning, so both need the same name of a folder.
class ChannelDeathTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ChannelDeathTest, WritesAFileWhenTheProcessEndsIfTheEnvironmentAsks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / (std::string("sluice_channel_") + GetParam());
  const auto traced = [&] {
    const std::string options = R"({"enable": "true", "directory": ")" + folder.string() + "\"}";
    ::setenv(GetParam(), options.c_str(), 1);
    { const Tracepoint point = Channel("a").tracepoint("b"); }
    std::exit(0);
  };
  EXPECT_EXIT(traced(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(profile::readTrace(folder / "host.slt").subjects.at(0).name, "b");
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Variables,
                         ChannelDeathTest,
                         ::testing::Values("SLUICE_PROFILE", "PVTI_OPTIONS"));

}  // namespace
}  // namespace sluice::profiling
