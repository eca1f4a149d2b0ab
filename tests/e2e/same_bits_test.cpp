// One model, cut and scheduled in many ways, leaves the same bits in every variable.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using parallel::Strategy;
using testing::Bits;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::ResidualMlp;
using testing::train;

constexpr std::int64_t kUpdates = 5;
constexpr std::int32_t kAccumulation = 6;

struct Cut {
  const char* name;
  std::vector<Stage> stages;
};

std::vector<Cut> cuts() {
  const auto at = [](Stage stage, std::int64_t device) {
    stage.device(device);
    return stage;
  };
  return {
      {"halves", {Stage("b0", "b1"), Stage("b2", "b3", "b4")}},
      {"uneven", {"b0", Stage("b1", "b2", "b3", "b4")}},
      {"thirds", {Stage("b0", "b1"), "b2", Stage("b3", "b4")}},
      {"four", {"b0", "b1", "b2", Stage("b3", "b4")}},
      {"five", {"b0", "b1", "b2", "b3", "b4"}},
      {"revisited", {at("b0", 0), at("b1", 1), at("b2", 0), at(Stage("b3", "b4"), 1)}},
      {"vShaped", {at("b0", 0), at("b1", 1), at("b2", 1), at(Stage("b3", "b4"), 0)}},
      {"backwards", {at("b0", 2), at(Stage("b1", "b2"), 1), at(Stage("b3", "b4"), 0)}},
  };
}

struct Configuration {
  std::string name;
  Options options;
};
void PrintTo(const Configuration& configuration, std::ostream* out) {
  *out << configuration.options.str();
}

Options withAccumulation() {
  Options options;
  options.training.gradientAccumulation(kAccumulation);
  options.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")}));
  return options;
}

std::vector<Configuration> configurations() {
  std::vector<Configuration> all;
  int number = 0;
  for (const Cut& cut : cuts()) {
    const auto add = [&](std::string name, const Strategy& strategy) {
      Options options = withAccumulation();
      options.setExecutionStrategy(strategy);
      // Threads, rounds per call and recomputation vary along with the rest.
      options.threads(number % 3 == 1 ? 2 : 1);
      options.deviceIterations(number % 4 == 2 ? kUpdates : 1);
      options.recomputation(number % 2 == 1 ? Recomputation::Pipeline : Recomputation::None);
      ++number;
      all.push_back({fmt::format("{}_{}", cut.name, name), std::move(options)});
    };
    add("sharded", ShardedExecution(cut.stages));
    for (const char* schedule : {"sequential",
                                 "grouped",
                                 "interleaved",
                                 "gpipe",
                                 "1f1b",
                                 "chunked",
                                 "zb-h1",
                                 "zero-bubble",
                                 "popart"}) {
      std::string name = schedule;
      std::erase(name, '-');
      add(name, PipelinedExecution(cut.stages).schedule(schedule));
    }
  }
  return all;
}

std::string difference(const Bits& expected, const Bits& got) {
  std::string text;
  for (const auto& [name, hash] : expected) {
    const auto other = got.find(name);
    if (other == got.end() || other->second != hash) {
      text += name + " ";
    }
  }
  return text + (expected.size() == got.size() ? "" : "and their number");
}

class SameBits : public ::testing::TestWithParam<Configuration> {};

TEST_P(SameBits, AsOnOneDevice) {
  static const Bits kCnn = train<BlockedCnn>(withAccumulation(), kUpdates);
  static const Bits kMlp = train<ResidualMlp>(withAccumulation(), kUpdates);
  static const Bits kGpt = train<BlockedGpt>(withAccumulation(), kUpdates);
  const Options& options = GetParam().options;
  EXPECT_EQ(difference(kCnn, train<BlockedCnn>(options, kUpdates)), "") << "of the cnn differ";
  EXPECT_EQ(difference(kMlp, train<ResidualMlp>(options, kUpdates)), "") << "of the mlp differ";
  EXPECT_EQ(difference(kGpt, train<BlockedGpt>(options, kUpdates)), "") << "of the gpt differ";
}

INSTANTIATE_TEST_SUITE_P(Matrix,
                         SameBits,
                         ::testing::ValuesIn(configurations()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sluice
