// Phased execution: variables and activations in remote memory, the same bits as on one device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"

namespace sluice {
namespace {

using testing::Bits;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::ResidualMlp;
using testing::train;

constexpr std::int64_t kUpdates = 5;
constexpr std::int32_t kAccumulation = 6;

Options onOneDevice() {
  Options options;
  options.training.gradientAccumulation(kAccumulation);
  options.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")}));
  return options;
}

/// Accumulators begin anew in every round; what they hold between rounds is nothing to keep.
std::string difference(const Bits& expected, const Bits& got) {
  std::string text;
  for (const auto& [name, hash] : expected) {
    if (name.ends_with(".accumulator")) {
      continue;
    }
    const auto other = got.find(name);
    if (other == got.end() || other->second != hash) {
      text += name + " ";
    }
  }
  return text + (expected.size() == got.size() ? "" : "and their number");
}

std::vector<Strategy> phasedStrategies() {
  std::vector<Strategy> all;
  const std::vector<Phase> five = {"b0", "b1", "b2", "b3", "b4"};
  const std::vector<Phase> three = {Phase("b0", "b1"), Phase("b2"), Phase("b3", "b4")};
  for (const std::vector<Phase>& phases : {five, three}) {
    for (const Liveness liveness : {Liveness::AlwaysLive,
                                    Liveness::OffChipAfterFwd,
                                    Liveness::OffChipAfterFwdNoOverlap,
                                    Liveness::OffChipAfterEachPhase}) {
      for (const PhaseOrder order : {PhaseOrder::PhaseMajor, PhaseOrder::MicroBatchMajor}) {
        all.push_back(SerialPhasedExecution(phases).setTensorsLiveness(liveness).order(order));
        all.push_back(ParallelPhasedExecution(phases).setTensorsLiveness(liveness).order(order));
      }
    }
    all.push_back(SerialPhasedExecution(phases).useSeparateBackwardPhase(true));
  }
  return all;
}

TEST(Phased, GivesTheBitsOfOneDevice) {
  const Bits cnn = train<BlockedCnn>(onOneDevice(), kUpdates);
  const Bits mlp = train<ResidualMlp>(onOneDevice(), kUpdates);
  const Bits gpt = train<BlockedGpt>(onOneDevice(), kUpdates);
  for (const Strategy& strategy : phasedStrategies()) {
    Options options = onOneDevice();
    options.setExecutionStrategy(strategy);
    SCOPED_TRACE(strategy.str());
    EXPECT_EQ(difference(cnn, train<BlockedCnn>(options, kUpdates)), "") << "of the cnn differ";
    EXPECT_EQ(difference(mlp, train<ResidualMlp>(options, kUpdates)), "") << "of the mlp differ";
    EXPECT_EQ(difference(gpt, train<BlockedGpt>(options, kUpdates)), "") << "of the gpt differ";
  }
}

}  // namespace
}  // namespace sluice
