// One model, cut and scheduled in many ways, leaves the same bits in every variable.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"

namespace sluice {
namespace {

using parallel::ConcurrentStages;
using parallel::PipelinedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using parallel::Strategy;
using testing::Bits;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::difference;
using testing::ResidualMlp;
using testing::Towers;
using testing::train;
using testing::trainWith;

constexpr std::int64_t kSameBitsUpdates = 5;
constexpr std::int32_t kSameBitsAccumulation = 6;

struct Cut {
  const char* name;
  std::vector<Stage> stages;
};
void PrintTo(const Cut& cut, std::ostream* out) {
  *out << cut.name;
}

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

Options withAccumulation() {
  Options options;
  options.training.gradientAccumulation(kSameBitsAccumulation);
  options.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")}));
  return options;
}

/// One after the other, for strategies without concurrent stages.
std::vector<Stage> flat(const std::vector<Stage>& places) {
  std::vector<Stage> stages;
  for (const Stage& place : places) {
    if (place.branches().empty()) {
      stages.push_back(place);
    }
    stages.insert(stages.end(), place.branches().begin(), place.branches().end());
  }
  return stages;
}

/// A cut under sharded execution and under every schedule; threads, rounds per call and
/// recomputation vary along.
std::vector<Options> configurations(const Cut& cut) {
  std::vector<Options> all;
  const auto add = [&](const Strategy& strategy) {
    const auto number = static_cast<int>(all.size() + cut.stages.size());
    Options options = withAccumulation();
    options.setExecutionStrategy(strategy);
    options.threads(number % 3 == 1 ? 2 : 1);
    options.deviceIterations(number % 4 == 2 ? kSameBitsUpdates : 1);
    options.recomputation(number % 2 == 1 ? Recomputation::Pipeline : Recomputation::None);
    options.inputOverlap(static_cast<OverlapMode>(number % 3));
    options.outputOverlap(static_cast<OverlapMode>(number / 3 % 3));
    options.barriers(number % 4 == 1);
    options.syncPattern(static_cast<SyncPattern>(number % 3));
    all.push_back(std::move(options));
  };
  add(ShardedExecution(flat(cut.stages)));
  for (const parallel::PipelineKind kind : schedule::allPipelineKinds()) {
    add(PipelinedExecution(cut.stages).schedule(kind));
  }
  return all;
}

class SameBits : public ::testing::TestWithParam<Cut> {};

TEST_P(SameBits, AsOnOneDevice) {
  const Bits cnn = train<BlockedCnn>(withAccumulation(), kSameBitsUpdates);
  const Bits mlp = train<ResidualMlp>(withAccumulation(), kSameBitsUpdates);
  const Bits gpt = train<BlockedGpt>(withAccumulation(), kSameBitsUpdates);
  const std::vector<Options> all = configurations(GetParam());
  ASSERT_EQ(all.size(), 10U);
  for (const Options& options : all) {
    SCOPED_TRACE(options.str());
    EXPECT_EQ(difference(cnn, train<BlockedCnn>(options, kSameBitsUpdates)), "")
        << "of the cnn differ";
    EXPECT_EQ(difference(mlp, train<ResidualMlp>(options, kSameBitsUpdates)), "")
        << "of the mlp differ";
    EXPECT_EQ(difference(gpt, train<BlockedGpt>(options, kSameBitsUpdates)), "")
        << "of the gpt differ";
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, SameBits, ::testing::ValuesIn(cuts()), [](const auto& test) {
  return std::string(test.param.name);
});

/// Rules whose updates join values of several devices, or that add to their state in the loop.
std::vector<std::unique_ptr<optim::Optimizer>> rules() {
  std::vector<std::unique_ptr<optim::Optimizer>> all;
  all.push_back(std::make_unique<optim::SGD>(optim::SgdOptions{
      .lr = 0.05, .momentum = 0.9, .weightDecay = 0.01, .nesterov = true, .maxGradNorm = 0.5}));
  all.push_back(std::make_unique<optim::SGD>(optim::SgdOptions{.lr = 0.05,
                                                               .momentum = 0.9,
                                                               .dampening = 0.1,
                                                               .weightDecay = 0.01,
                                                               .useCombinedAccum = true,
                                                               .velocityScaling = 8,
                                                               .lossScaling = 64}));
  all.push_back(std::make_unique<optim::SGD>(
      optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.1, .torchCompatible = true}));
  all.push_back(std::make_unique<optim::RMSprop>(
      optim::RmsPropOptions{.eps = 1e-4, .momentum = 0.9, .centered = true, .lossScaling = 8}));
  all.push_back(std::make_unique<optim::LAMB>(optim::LambOptions{.lr = 0.01}));
  optim::AdamW adam(optim::AdamOptions{.lr = 0.01,
                                       .lossScaling = 128,
                                       .maxGradNorm = 0.001,
                                       .accumType = DType::F16,
                                       .firstOrderMomentumAccumType = DType::F16});
  adam.markAsConstant("beta1").addGroup(optim::endingWith(".bias"), {{"weight_decay", 0.0}});
  all.push_back(adam.clone());
  return all;
}

using SameBitsOfRules = SameBits;

TEST_P(SameBitsOfRules, AsOnOneDevice) {
  const std::vector<Options> all = configurations(GetParam());
  for (const auto& rule : rules()) {
    const Bits expected = trainWith<ResidualMlp>(*rule, withAccumulation(), kSameBitsUpdates);
    for (const Options& options : all) {
      SCOPED_TRACE(rule->name() + "\n" + options.str());
      EXPECT_EQ(difference(expected, trainWith<ResidualMlp>(*rule, options, kSameBitsUpdates)), "");
    }
  }
}

std::vector<Cut> someCuts() {
  std::vector<Cut> some = cuts();
  std::erase_if(some, [](const Cut& cut) {
    const std::string_view name = cut.name;
    return name != "halves" && name != "five" && name != "revisited" && name != "backwards";
  });
  return some;
}

INSTANTIATE_TEST_SUITE_P(Matrix,
                         SameBitsOfRules,
                         ::testing::ValuesIn(someCuts()),
                         [](const auto& test) { return std::string(test.param.name); });

/// Phases in both orders, and stages whose weights, state and accumulators are off the devices.
std::vector<Options> offTheDevices() {
  using parallel::Phase;
  std::vector<Options> all;
  const std::vector<Phase> phases = {Phase("b0", "b1"), Phase("b2"), Phase("b3", "b4")};
  for (const auto order :
       {parallel::PhaseOrder::PhaseMajor, parallel::PhaseOrder::MicroBatchMajor}) {
    all.push_back(withAccumulation());
    all.back().setExecutionStrategy(parallel::SerialPhasedExecution(phases).order(order));
  }
  const TensorLocationSettings off = TensorLocationSettings().useOnChipStorage(false);
  all.push_back(withAccumulation());
  all.back().setExecutionStrategy(PipelinedExecution({Stage("b0", "b1"), Stage("b2", "b3", "b4")}));
  all.back()
      .tensorLocations.setWeightLocation(off)
      .setOptimizerLocation(off)
      .setAccumulatorLocation(off);
  return all;
}

/// Without accumulators: what these hold between rounds is nothing to keep.
Bits kept(Bits bits) {
  std::erase_if(bits, [](const auto& entry) { return entry.first.ends_with(".accumulator"); });
  return bits;
}

TEST(Rules, InPhasesAndOffTheDevicesHaveTheSameBits) {
  for (const auto& rule : rules()) {
    const Bits expected = kept(trainWith<ResidualMlp>(*rule, withAccumulation(), kSameBitsUpdates));
    for (const Options& options : offTheDevices()) {
      SCOPED_TRACE(rule->name() + "\n" + options.str());
      EXPECT_EQ(
          difference(expected, kept(trainWith<ResidualMlp>(*rule, options, kSameBitsUpdates))), "");
    }
  }
}

std::vector<Cut> cutsWithConcurrentStages() {
  const auto at = [](Stage stage, std::int64_t device) {
    stage.device(device);
    return stage;
  };
  using All = ConcurrentStages;
  return {
      {"middle", {Stage("b0", "b1"), All("b2", "b3"), Stage("b4", "b5")}},
      {"middleOnAnEarlierAndALaterDevice",
       {at(Stage("b0", "b1"), 0), All(at("b2", 1), at("b3", 2)), at(Stage("b4", "b5"), 2)}},
      {"middleOnTheFirstDevice",
       {at("b0", 0), at("b1", 1), All(at("b2", 1), at("b3", 0)), at(Stage("b4", "b5"), 1)}},
      {"first", {All("b0", "b1"), Stage("b2", "b3", "b4", "b5")}},
      {"twice", {All("b1", "b0"), All("b2", "b3"), "b4", "b5"}},
      {"threefold", {"b0", All("b1", "b2", "b3"), Stage("b4", "b5")}},
  };
}

class SameBitsWithConcurrentStages : public ::testing::TestWithParam<Cut> {};

TEST_P(SameBitsWithConcurrentStages, AsOnOneDevice) {
  Options one;
  one.training.gradientAccumulation(kSameBitsAccumulation);
  one.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4", "b5")}));
  const Bits expected = train<Towers>(one, kSameBitsUpdates);
  for (const Options& options : configurations(GetParam())) {
    SCOPED_TRACE(options.str());
    EXPECT_EQ(difference(expected, train<Towers>(options, kSameBitsUpdates)), "");
  }
}

/// A concurrent stage may be ahead of the one on the device that has the input.
TEST_P(SameBitsWithConcurrentStages, WithoutFusion) {
  Options one;
  one.training.gradientAccumulation(kSameBitsAccumulation);
  one.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4", "b5")}));
  const Bits expected = train<Towers>(one, kSameBitsUpdates);
  for (Options options : configurations(GetParam())) {
    options.fusion(false);
    SCOPED_TRACE(options.str());
    EXPECT_EQ(difference(expected, train<Towers>(options, kSameBitsUpdates)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix,
                         SameBitsWithConcurrentStages,
                         ::testing::ValuesIn(cutsWithConcurrentStages()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace sluice
