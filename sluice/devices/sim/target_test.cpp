#include "sluice/devices/sim/target.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice::devices::sim {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SimTarget, HasThePublishedFiguresOfTheIpu) {
  EXPECT_THAT(builtInTargets(), ElementsAre("ipu1", "ipu2", "ipu21"));
  const SimTarget one = findTarget("ipu1");
  EXPECT_EQ(one.clockHz, 1'600'000'000);
  EXPECT_EQ(one.memoryBytes, std::size_t{1216} * 256 * 1024);
  EXPECT_EQ(one.flops.f16, 125e12);
  const SimTarget two = findTarget("ipu2");
  EXPECT_EQ(two.clockHz, 1'330'000'000);
  EXPECT_EQ(two.memoryBytes, std::size_t{1472} * 624 * 1024);
  EXPECT_EQ(two.flops.f16, 250e12);
  const SimTarget bow = findTarget("ipu21");
  EXPECT_EQ(bow.clockHz, 1'850'000'000);
  EXPECT_EQ(bow.memoryBytes, two.memoryBytes);
  EXPECT_EQ(bow.flops.f16, 350e12);
  for (const SimTarget& target : {one, two, bow}) {
    EXPECT_EQ(target.flops.f32, target.flops.f16 / 4);
    EXPECT_TRUE(target.ipuRules);
    for (const char* figure : {"clockHz",
                               "memoryBytes",
                               "flops",
                               "memoryBytesPerSecond",
                               "kernelTicks",
                               "peerLink",
                               "hostLink",
                               "remoteLink",
                               "sumBytesPerSecond",
                               "syncSeconds"}) {
      EXPECT_TRUE(target.sources.contains(figure)) << figure;
    }
  }
  EXPECT_EQ(findTarget("").name, "ipu2");
}

TEST(SimTarget, IsPrintedAsItIsRead) {
  SimTarget target = findTarget("ipu21");
  target.kernels = {{"matmul panels f32[2, 3] 00ff", 1.25e-6}};
  target.machine.cores = 3;
  target.machine.processes = 4;
  target.machine.process = {.bytesPerSecond = 5, .latencySeconds = 6};
  target.machine.messageSeconds = 7e-6;
  target.machine.taskSeconds = 2e-6;
  target.machine.wakeSeconds = 5e-6;
  EXPECT_EQ(parseTarget(print(target), "text"), target);
  EXPECT_EQ(parseTarget(print(target), "text").machine.messageSeconds, 7e-6);
  EXPECT_EQ(parseTarget(print(target), "text").kernels, target.kernels);
  EXPECT_EQ(parseTarget(print(target), "text").machine.cores, 3);
  EXPECT_EQ(parseTarget(print(target), "text").machine.processes, 4);
  EXPECT_EQ(parseTarget(print(target), "text").machine.process.latencySeconds, 6);
}

TEST(SimTarget, IsAFileOrTheOneOfThisMachine) {
  const sluice::testing::TempFolder folder;
  SimTarget target = findTarget("ipu1");
  target.name = "mine";
  const std::string path = (folder.path() / "mine.json").string();
  writeFileAtomically(path, print(target));
  EXPECT_EQ(findTarget(path).name, "mine");
  const char* before = std::getenv("SLUICE_CACHE_DIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("SLUICE_CACHE_DIR", folder.path().c_str(), 1);
  EXPECT_EQ(measuredPath(), (folder.path() / "measured.json").string());
  EXPECT_THAT(messageOf<ConfigFileError>([] { findTarget("measured"); }),
              HasSubstr("sluice calibrate"));
  for (const char* damaged : {"", "{", R"({"name": "a"})"}) {
    writeFileAtomically(measuredPath(), damaged);
    EXPECT_THAT(messageOf<ConfigFileError>([] { findTarget("measured"); }),
                AllOf(HasSubstr("measured.json"), HasSubstr("`sluice calibrate` makes it again")));
  }
  target.name = "measured";
  writeFileAtomically(measuredPath(), print(target));
  EXPECT_EQ(findTarget("measured").name, "measured");
  kept.empty() ? ::unsetenv("SLUICE_CACHE_DIR") : ::setenv("SLUICE_CACHE_DIR", kept.c_str(), 1);
}

TEST(SimTarget, RefusesWhatIsNoTarget) {
  const auto refusal = [](std::string_view text) {
    return messageOf<ConfigFileError>([&] { parseTarget(text, "t.json"); });
  };
  EXPECT_THAT(refusal("{"), AllOf(HasSubstr("t.json"), HasSubstr("JSON")));
  EXPECT_THAT(refusal("[]"), HasSubstr("object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("name"));
  EXPECT_THAT(refusal(R"({"name": "a"})"), HasSubstr("clockHz"));
  EXPECT_THAT(refusal(R"({"name": 3, "clockHz": 1})"), HasSubstr("name to be a text"));
  EXPECT_THAT(refusal(R"({"name": "a", "clockHz": 0})"), HasSubstr("clockHz"));
  EXPECT_THAT(refusal(R"({"name": "a", "clockHz": 1e10})"), HasSubstr("clockHz"));
  EXPECT_THAT(refusal(R"({"name": "a", "clockHz": 1.5})"), HasSubstr("whole"));
  EXPECT_THAT(refusal(R"({"name": "a", "clockHz": 5, "clokHz": 5})"),
              HasSubstr("did you mean 'clockHz'"));
  EXPECT_THAT(refusal(R"({"name": "a", "clockHz": 5, "flops": {"f8": 1}})"), HasSubstr("flops.f8"));
  EXPECT_THAT(refusal(R"({"name": "a", "clockHz": 5, "hostLink": {"latencySeconds": -1}})"),
              HasSubstr("hostLink.latencySeconds"));
  EXPECT_THAT(refusal(R"({"name": "a", "clockHz": 5, "peerLink": 7})"), HasSubstr("peerLink"));
  EXPECT_THAT(refusal(R"({"name": "a", "clockHz": 5, "kernels": {"k": "x"}})"),
              HasSubstr("kernels.k"));
  EXPECT_THAT(refusal(R"({"name": "a", "clockHz": 5, "ipuRules": 1})"), HasSubstr("true or false"));
  EXPECT_THAT(messageOf<InvalidArgument>([] { findTarget("ipu3"); }), HasSubstr("ipu21"));
  EXPECT_THAT(messageOf<ConfigFileError>([] { findTarget("/nowhere/t.json"); }),
              HasSubstr("/nowhere/t.json"));
}

/// A message that quoted the value would use up the stack.
TEST(SimTarget, WithDeeplyNestedListsIsRefused) {
  constexpr std::size_t kDepth = 1'000'000;
  const std::string list = std::string(kDepth, '[') + std::string(kDepth, ']');
  EXPECT_THAT(messageOf<ConfigFileError>(
                  [&] { parseTarget(R"({"name": "a", "clockHz": )" + list + "}", "t.json"); }),
              HasSubstr("clockHz to be a number from 1 to 9000000000, got array"));
}

/// If every kernel looked at all others, this would take minutes.
TEST(SimTarget, OfManyKernelsIsReadInTimeThatGrowsWithTheirNumber) {
  constexpr int kCount = 300'000;
  std::string text = R"({"name": "a", "clockHz": 5, "kernels": {)";
  for (int i = 0; i < kCount; ++i) {
    text += fmt::format("{}\"k{}\": 1", i == 0 ? "" : ",", i);
  }
  EXPECT_EQ(parseTarget(text + "}}", "t").kernels.size(), static_cast<std::size_t>(kCount));
}

/// Any part of a sound text is refused or read, and nothing else happens.
TEST(SimTarget, CutAnywhereIsRefused) {
  const std::string text = print(findTarget("ipu2"));
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_NE(messageOf<ConfigFileError>([&] { parseTarget(text.substr(0, length), "t"); }),
              "nothing thrown")
        << length;
  }
}

}  // namespace
}  // namespace sluice::devices::sim
