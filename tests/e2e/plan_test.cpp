// Automatic plans. The oracle is brute force: every named plan is compiled and simulated as a model
// of its own, through the public functions, and the search may not be worse than the best of them.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/plan_support.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::Cnn;
using testing::compiled;
using testing::expectBest;
using testing::found;
using ::testing::HasSubstr;
using testing::kKiB;
using testing::messageOf;
using testing::Mlp;
using testing::planning;

TEST(FindPlan, IsNotWorseThanBruteForce) {
  expectBest<BlockedCnn>(900 * kKiB, 2, true);
  expectBest<Mlp>(8 * kKiB, 1, true);
  expectBest<BlockedCnn>(900 * kKiB, 3, false);
  expectBest<Mlp>(900 * kKiB, 1, false);
}

TEST(FindPlan, LeavesTheModelAsItWas) {
  BlockedCnn net;
  Options options = planning(0, 4, true);
  options.setExecutionStrategy(ShardedExecution());
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const PlanReport before = model.findPlan(BlockedCnn::inputs(), {.devices = 2});
  EXPECT_FALSE(model.isCompiled());
  model.compile(std::span<const TensorType>(BlockedCnn::inputs()));
  const double step = model.simulateStep().seconds;
  const PlanReport after = model.findPlan(BlockedCnn::inputs(), {.devices = 2});
  EXPECT_EQ(before.best->choice, after.best->choice);
  EXPECT_EQ(before.best->seconds, after.best->seconds);
  EXPECT_EQ(model.simulateStep().seconds, step);
}

TEST(FindPlan, DrawsEveryMicroBatchOfEveryDevice) {
  const PlanReport report =
      found<BlockedCnn>(planning(0, 4, true), true, {.devices = 3, .replicas = false});
  ASSERT_TRUE(report.best);
  std::vector<std::int32_t> seen;
  for (const auto& device : report.best->timeline) {
    std::int64_t end = 0;
    for (const schedule::Work& work : device) {
      EXPECT_GE(work.start, end);
      end = work.end;
      if (work.kind == schedule::WorkKind::Forward && work.stage == 0) {
        seen.push_back(work.microBatch);
      }
    }
    EXPECT_LE(end, static_cast<std::int64_t>(1e9 * report.best->seconds) + 1);
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1, 2, 3));
}

/// The options of a plan with this many replicas of one device each.
Options replicated(Options options, bool training, std::int64_t replicas) {
  const PlanSpace space = testing::spaceOf(options, training, replicas);
  withReplicas({}, space, replicas).applyTo(options);
  return options;
}

TEST(FindPlan, ReplicasShareOutTheMicroBatchesOfTheModel) {
  const auto microBatches = [](const Options& options, RunKind kind) {
    const BatchLayout layout = BatchLayout::of(options, kind);
    return std::pair(layout.replicationFactor, layout.microBatches());
  };
  EXPECT_EQ(microBatches(replicated(planning(0, 6, true), true, 2), RunKind::Training),
            std::pair(std::int64_t{2}, std::int64_t{3}));
  EXPECT_EQ(microBatches(replicated(planning(0, 6, false), false, 3), RunKind::Inference),
            std::pair(std::int64_t{3}, std::int64_t{2}));
}

TEST(FindPlan, UsesReplicasWhereTheyAreFaster) {
  // Two copies of a model of one layer compute side by side; a pipeline cannot cut it.
  const PlanReport report = found<Mlp>(planning(0, 4, false), false, {.devices = 2});
  ASSERT_TRUE(report.best);
  EXPECT_EQ(report.best->choice.replicas, 2) << report.best->choice.str();
  EXPECT_THAT(report.best->choice.str(), HasSubstr("2 replicas of one device"));
  const PlanReport without =
      found<Mlp>(planning(0, 4, false), false, {.devices = 2, .replicas = false});
  EXPECT_EQ(without.best->choice.replicas, 1);
  EXPECT_GT(without.best->seconds, report.best->seconds);
  for (const TriedPlan& tried : without.tried) {
    EXPECT_EQ(tried.choice.replicas, 1) << tried.choice.str();
  }
}

TEST(FindPlan, KeepsTheReplicasThatTheOptionsAskFor) {
  Options options = planning(0, 4, true);
  options.replicationFactor(2);
  const PlanReport report = found<BlockedCnn>(options, true, {.devices = 2});
  ASSERT_TRUE(report.best);
  for (const TriedPlan& tried : report.tried) {
    EXPECT_EQ(tried.choice.replicas, 1) << tried.choice.str();
  }
  const auto made = compiled<BlockedCnn>(options, true, report.best->choice);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->seconds, report.best->seconds);
}

TEST(FindPlan, EndsWhenItIsStopped) {
  int asked = 0;
  const PlanReport report =
      found<BlockedCnn>(planning(0, 4, true), true, {.devices = 2, .seconds = 1e6, .stop = [&] {
                                                       return ++asked > 2;
                                                     }});
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.tried.size(), 2U);
  EXPECT_TRUE(report.best);
  EXPECT_EQ(report.bound, 0);  // not known
}

TEST(FindPlan, RefusesWhatItCannotPlan) {
  BlockedCnn net;
  Options cpu = Options::defaults();
  auto real = trainingModel(net, cpu, optim::AdamW(0.01));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { real.findPlan(BlockedCnn::inputs()); }),
              HasSubstr("not simulated"));
  real.destroy();
  auto model = trainingModel(net, planning(0, 4, true), optim::AdamW(0.01));
  for (const std::int64_t devices : {-1, 0, 65}) {
    EXPECT_THAT(messageOf<InvalidArgument>(
                    [&] { model.findPlan(BlockedCnn::inputs(), {.devices = devices}); }),
                HasSubstr("1 to 64 devices"));
  }
  const std::vector<TensorType> few = {BlockedCnn::inputs()[0]};
  EXPECT_THAT(messageOf<InvalidArgument>([&] { model.findPlan(few); }), HasSubstr("inputs"));
}

// --- automatic strategies ---

template <class Net>
void expectBitsOfOneDevice() {
  Options options = Options::defaults();
  options.showCompilationProgressBar(false);
  options.training.gradientAccumulation(4);
  const testing::Bits one = testing::train<Net>(options, 2);
  for (const Strategy& strategy : std::vector<Strategy>{
           PipelinedExecution::automatic(1),
           PipelinedExecution::automatic(2),
           PipelinedExecution::automatic(3).schedule("zb-h1"),
           PipelinedExecution::automatic({0.2, 0.8}).schedule("gpipe"),
           PipelinedExecution::automatic(2).schedule("chunked").stagesPerDevice(2),
           PipelinedExecution::automatic({0.4, 0.6}).schedule("zero-bubble").stagesPerDevice(2),
           PipelinedExecution::automatic(2).schedule("chunked").stagesPerDevice(3),
           ShardedExecution::automatic(2),
           ShardedExecution::automatic({3, 1})}) {
    Options cut = options;
    cut.setExecutionStrategy(strategy);
    EXPECT_EQ(testing::difference(one, testing::train<Net>(cut, 2)), "") << strategy.str();
  }
}

TEST(AutomaticStrategy, HasTheBitsOfOneDeviceWhateverTheBlocks) {
  expectBitsOfOneDevice<BlockedCnn>();
  expectBitsOfOneDevice<BlockedGpt>();
  expectBitsOfOneDevice<Cnn>();
}

TEST(AutomaticStrategy, UsesSoManyDevicesAndSharesWork) {
  for (const std::int64_t devices : {1, 2, 3}) {
    Options options = planning(0, 4, true);
    const auto made =
        compiled<BlockedCnn>(options, true, {.strategy = PipelinedExecution::automatic(devices)});
    ASSERT_TRUE(made);
    EXPECT_EQ(std::ssize(made->devices), devices);
  }
}

TEST(AutomaticStrategy, IsTextThatReadsBack) {
  for (const Strategy& strategy :
       std::vector<Strategy>{PipelinedExecution::automatic(4).schedule("zb-h1"),
                             PipelinedExecution::automatic({0.25, 0.5}).schedule("1f1b"),
                             ShardedExecution::automatic(2),
                             ShardedExecution::automatic({1, 2, 3})}) {
    Options options;
    options.setExecutionStrategy(strategy);
    Options read;
    read.set("setExecutionStrategy", strategy.str());
    EXPECT_EQ(read.executionStrategy(), strategy) << strategy.str();
  }
}

TEST(AutomaticStrategy, RefusesWrongCountsAndSecondCuts) {
  for (const std::int64_t devices : {-1, 0, 1025}) {
    EXPECT_THAT(messageOf<InvalidArgument>([&] { PipelinedExecution::automatic(devices); }),
                HasSubstr("1 to 1024 devices"));
  }
  EXPECT_THAT(messageOf<InvalidArgument>([] {
                ShardedExecution::automatic({1, 0});
              }),
              HasSubstr("above 0"));
  EXPECT_THAT(messageOf<InvalidArgument>([] {
                PipelinedExecution::automatic({1, std::numeric_limits<double>::quiet_NaN()});
              }),
              HasSubstr("above 0"));
  Cnn net;
  Options options = Options::defaults();
  options.setExecutionStrategy(PipelinedExecution::automatic(2));
  options.virtualGraphMode(VirtualGraphMode::Manual);
  auto model = inferenceModel(net, options);
  EXPECT_THAT(messageOf<InvalidArgument>(
                  [&] { model.compile(std::span<const TensorType>(Cnn::inputs())); }),
              HasSubstr("virtualGraphMode"));
  Mlp small;
  Options more = Options::defaults();
  more.setExecutionStrategy(PipelinedExecution::automatic(60));
  auto many = inferenceModel(small, more);
  EXPECT_THAT(
      messageOf<InvalidArgument>([&] { many.compile(std::span<const TensorType>(Mlp::inputs())); }),
      HasSubstr("over at most"));
}

TEST(AutomaticStrategy, OutOfMemoryProposesWhatFits) {
  BlockedGpt net;
  Options options = planning(24 * kKiB, 4, true);
  options.setExecutionStrategy(PipelinedExecution::automatic(2).schedule("gpipe"));
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  EXPECT_THAT(messageOf<OutOfMemory>(
                  [&] { model.compile(std::span<const TensorType>(BlockedGpt::inputs())); }),
              HasSubstr("fit"));
}

// --- the search alone, with made-up trials ---

/// A plan that takes this long and this much, if there is room.
Trial trialOf(const PlanChoice& choice, double seconds, std::size_t bytes, std::size_t budget) {
  if (budget != 0 && bytes > budget) {
    return {.outcome = PlanOutcome::TooLarge};
  }
  Plan plan{.choice = choice, .seconds = seconds};
  plan.busy = {seconds / 2};
  plan.devices = {{.state = bytes}};
  return {PlanOutcome::Fits, plan, ""};
}

/// More thrift takes longer and needs less.
Trial thriftyTrial(const PlanChoice& choice, std::size_t budget) {
  const auto thrift = static_cast<std::size_t>(choice.recomputation != Recomputation::None) +
                      static_cast<std::size_t>(choice.optimizerOffChip) +
                      static_cast<std::size_t>(choice.weightsOffChip);
  return trialOf(choice, 1.0 + static_cast<double>(thrift), 1000 - 100 * thrift, budget);
}

TEST(PlanSearch, TriesNoMoreThriftThanNeeded) {
  PlanReport report;
  searchPlans({.devices = 1, .training = true, .budget = 850}, thriftyTrial, 1, {}, report);
  ASSERT_TRUE(report.best);
  EXPECT_EQ(report.best->seconds, 3);
  EXPECT_TRUE(report.complete);
  for (const TriedPlan& tried : report.tried) {
    EXPECT_LE(tried.seconds, 3);
  }
}

/// Replicas and schedules of a second device, not only the best plan's own schedule.
TEST(PlanSearch, SuggestsTheBestUseOfOneMoreDevice) {
  const PlanSpace space{.devices = 1, .training = true, .budget = 1000, .shared = 4};
  const PlanChoice one{.strategy = PipelinedExecution::automatic(1)};
  const auto suggested = [&](const auto& seconds) {
    PlanReport report;
    report.best = *trialOf(one, 5, 1000, 1000).plan;
    addOneMoreDevice(
        space,
        [&](const PlanChoice& choice) { return trialOf(choice, seconds(choice), 1000, 1000); },
        report);
    return report.changes.empty() ? "" : report.changes[0].text;
  };
  EXPECT_EQ(suggested([](const PlanChoice& choice) { return choice.replicas == 2 ? 3 : 4; }),
            "one more device: 2 replicas of one device");
  EXPECT_THAT(suggested([](const PlanChoice& choice) {
                return choice.strategy.schedule() == schedule::PipelineKind::ZeroBubble ? 3 : 4;
              }),
              HasSubstr("pipeline of 2 devices, zero-bubble"));
  EXPECT_EQ(suggested([](const PlanChoice&) { return 5; }), "");  // not faster
}

/// Three replicas cannot share out four micro-batches, so two of three devices were best.
TEST(FindPlan, SuggestsADeviceThatLetsReplicasShareOut) {
  const PlanReport report = found<Mlp>(planning(0, 4, false), false, {.devices = 3});
  ASSERT_TRUE(report.best);
  EXPECT_EQ(report.best->choice.replicas, 2) << report.best->choice.str();
  ASSERT_FALSE(report.changes.empty());
  EXPECT_EQ(report.changes.back().text, "one more device: 4 replicas of one device");
  EXPECT_LT(report.changes.back().seconds, report.best->seconds);
}

TEST(PlanSearch, SuggestsOneMoreDeviceForReplicasAndPhases) {
  const PlanSpace space{.devices = 3, .training = true, .budget = 1000, .shared = 12};
  PlanChoice replicas = withReplicas({.strategy = PipelinedExecution::automatic(1)}, space, 3);
  replicas.recomputation = Recomputation::Standard;
  const PlanChoice phased{.strategy = SerialPhasedExecution(Phase::automatic(2))};
  for (const PlanChoice& best : {replicas, phased}) {
    std::set<std::int64_t> counts;
    for (const PlanChoice& choice : plansOnOneMore(space, best)) {
      EXPECT_EQ(choice.strategy.automaticDevices() * choice.replicas, 4) << choice.str();
      EXPECT_TRUE(choice.recomputation == Recomputation::None ||
                  choice.recomputation == best.recomputation);
      counts.insert(choice.replicas);
    }
    EXPECT_EQ(counts, (std::set<std::int64_t>{1, 2, 4}));
  }
}

/// Phases that fit with less thrift may do less work than plans that fit with more.
TEST(PlanSearch, TriesPhasesUnlessAPlanFitsWithoutThrift) {
  const auto trial = [](const PlanChoice& choice, std::size_t budget) {
    return parallel::isPhased(choice.strategy.kind()) ? trialOf(choice, 1.5, 800, budget)
                                                      : thriftyTrial(choice, budget);
  };
  const auto bestOf = [&](std::size_t budget) {
    PlanReport report;
    searchPlans({.devices = 1, .training = true, .budget = budget}, trial, 1, {}, report);
    return report;
  };
  for (const std::size_t budget : {800, 850, 900}) {
    const PlanReport thrifty = bestOf(budget);
    ASSERT_TRUE(thrifty.best);
    EXPECT_EQ(thrifty.best->seconds, 1.5) << budget;
  }
  const PlanReport ample = bestOf(1000);
  EXPECT_EQ(ample.best->seconds, 1);
  for (const TriedPlan& tried : ample.tried) {
    EXPECT_FALSE(parallel::isPhased(tried.choice.strategy.kind()));
  }
}

TEST(PlanSearch, ExhaustiveTriesEveryNamedPlan) {
  const PlanSpace space{.devices = 3, .training = true};
  std::size_t all = 0;
  for (const auto& family : namedPlans(space)) {
    all += family.size();
  }
  PlanReport report;
  SearchSettings settings;
  settings.exhaustive = true;
  searchPlans(space, thriftyTrial, 1, settings, report);
  EXPECT_EQ(report.tried.size(), all);
}

TEST(PlanSearch, EndsWhenTheTimeIsUp) {
  int asked = 0;
  PlanReport report;
  SearchSettings settings;
  settings.usedTime = [&] { return ++asked > 3 ? 1.0 : 0.0; };
  std::size_t shown = 0;
  settings.progress = [&](const PlanProgress& progress) { shown = progress.tried; };
  searchPlans({.devices = 4, .training = true}, thriftyTrial, 4, settings, report);
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.tried.size(), 3U);
  EXPECT_EQ(shown, 3U);
  EXPECT_TRUE(report.best);
}

TEST(PlanSearch, FindsTheSmallestBudgetOfAllChoices) {
  PlanReport report;
  searchPlans({.devices = 2, .training = true, .budget = 10}, thriftyTrial, 2, {}, report);
  EXPECT_FALSE(report.best);
  EXPECT_EQ(report.smallestBudget, std::optional<std::size_t>(700));
}

TEST(PlanSearch, KeepsTimeForTheSmallestBudget) {
  double used = 0;
  PlanReport report;
  SearchSettings settings;
  settings.usedTime = [&] { return used += 0.01; };
  searchPlans({.devices = 4, .training = true, .budget = 10}, thriftyTrial, 4, settings, report);
  EXPECT_FALSE(report.complete);
  EXPECT_LE(report.tried.size(), 60U);
  EXPECT_EQ(report.smallestBudget, std::optional<std::size_t>(700));
}

TEST(PlanSearch, FindsAFitBeforeItTriesEveryStrategy) {
  // Only the most thrift fits; a trial takes a hundredth of the time.
  double used = 0;
  PlanReport report;
  SearchSettings settings;
  settings.usedTime = [&] { return used += 0.01; };
  searchPlans({.devices = 8, .training = true, .budget = 700}, thriftyTrial, 8, settings, report);
  ASSERT_TRUE(report.best);
  EXPECT_EQ(report.best->seconds, 4);
}

TEST(PlanSearch, TakesAFitThatTheSmallestBudgetFinds) {
  // The time is up before phases are tried, and only these fit.
  const auto trial = [](const PlanChoice& choice, std::size_t budget) {
    const bool phased = parallel::isPhased(choice.strategy.kind());
    return trialOf(choice, phased ? 9 : 1, phased ? 50 : 500, budget);
  };
  double used = 0;
  PlanReport report;
  SearchSettings settings;
  settings.usedTime = [&] { return used += 0.05; };
  searchPlans({.devices = 8, .training = true, .budget = 60}, trial, 8, settings, report);
  ASSERT_TRUE(report.best);
  EXPECT_EQ(report.best->seconds, 9);
  EXPECT_FALSE(report.smallestBudget);
}

TEST(PlanSearch, ShiftsTheCutFromBusyDevices) {
  // The step takes as long as the busier of two devices, whose shares make their work.
  const auto trial = [](const PlanChoice& choice, std::size_t) -> Trial {
    if (choice.strategy.automaticDevices() != 2) {
      return {.outcome = PlanOutcome::Impossible, .reason = "two devices only"};
    }
    const auto shares = choice.strategy.shares();
    const double first = shares.empty() ? 0.5 : shares[0] / (shares[0] + shares[1]);
    Plan plan{.choice = choice, .busy = {3 * first, 1 - first}};
    plan.seconds = std::max(plan.busy[0], plan.busy[1]);
    plan.devices = {{}, {}};
    return {PlanOutcome::Fits, plan, ""};
  };
  PlanReport report;
  searchPlans({.devices = 2, .training = false}, trial, 2, {}, report);
  ASSERT_TRUE(report.best);
  EXPECT_LT(report.best->seconds, 0.85);  // 1.5 before, 0.75 at best
  EXPECT_EQ(report.best->choice.strategy.shares().size(), 2U);
}

/// Plans with 1, 2 or 4 replicas of one device; kernels take 12 s in all and 3 s in a chain.
Trial replicatedTrial(const PlanChoice& choice, std::size_t budget) {
  if (choice.strategy.automaticDevices() != 1) {
    return {.outcome = PlanOutcome::Impossible, .reason = "one device only"};
  }
  Trial trial = trialOf(choice, 14.0 / static_cast<double>(choice.replicas), 10, budget);
  trial.work = 12 + static_cast<double>(choice.replicas);
  trial.chain = 3;
  return trial;
}

TEST(PlanSearch, TriesReplicasThatDivideTheMicroBatches) {
  PlanReport report;
  searchPlans({.devices = 4, .training = true, .shared = 8}, replicatedTrial, 4, {}, report);
  ASSERT_TRUE(report.best);
  EXPECT_EQ(report.best->choice.replicas, 4);
  EXPECT_EQ(report.best->choice.microBatches, 2);
  std::set<std::int64_t> replicas;
  for (const TriedPlan& tried : report.tried) {
    replicas.insert(tried.choice.replicas);
  }
  EXPECT_THAT(replicas, ::testing::ElementsAre(1, 2, 4));
}

TEST(PlanSearch, TheBoundIsThatOfTheReplicasThatNeedLeast) {
  PlanReport report;
  searchPlans({.devices = 4, .training = true, .shared = 8}, replicatedTrial, 4, {}, report);
  EXPECT_EQ(report.bound, 13.0 / 4);  // of one replica, shared out among 4 devices
  EXPECT_EQ(report.boundedBy, BoundedBy::Work);
  searchPlans({.devices = 8, .training = true, .shared = 8}, replicatedTrial, 8, {}, report);
  EXPECT_EQ(report.bound, 3);
  EXPECT_EQ(report.boundedBy, BoundedBy::Chain);
}

TEST(PlanSearch, NothingIsPossible) {
  const auto trial = [](const PlanChoice&, std::size_t) -> Trial {
    return {.outcome = PlanOutcome::Impossible, .reason = "no"};
  };
  PlanReport report;
  searchPlans({.devices = 2, .training = true, .budget = 10}, trial, 2, {}, report);
  EXPECT_FALSE(report.best);
  EXPECT_FALSE(report.smallestBudget);
  EXPECT_EQ(report.bound, 0);
}

TEST(PlanChoice, SaysReplicasInItsLines) {
  const PlanChoice training{.replicas = 2, .microBatches = 3};
  EXPECT_THAT(training.cppLines(),
              ::testing::ElementsAre("options.replicationFactor(2);",
                                     "options.training.gradientAccumulation(3);",
                                     "options.setExecutionStrategy(PipelinedExecution::automatic"
                                     "(1).schedule(\"1f1b\"));"));
  const PlanChoice inference{.replicas = 2, .microBatches = 3, .training = false};
  EXPECT_EQ(inference.pythonLines()[0], "options.replicationFactor(2)");
  EXPECT_EQ(inference.pythonLines()[1], "options.deviceIterations(3)");
}

TEST(PlanChoice, IsLinesOfCppAndPython) {
  const PlanChoice choice{PipelinedExecution::automatic({0.25, 0.75}).schedule("zb-h1"),
                          Recomputation::Standard,
                          true,
                          true};
  EXPECT_THAT(
      choice.cppLines(),
      ::testing::ElementsAre(
          "options.setExecutionStrategy(PipelinedExecution::automatic({0.25, "
          "0.75}).schedule(\"zb-h1\"));",
          "options.recomputation(Recomputation::Standard);",
          "options.tensorLocations.setOptimizerLocation(TensorLocationSettings()."
          "useOnChipStorage(false));",
          "options.tensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage("
          "false));",
          "options.tensorLocations.setAccumulatorLocation(TensorLocationSettings()."
          "useOnChipStorage(false));"));
  const PlanChoice phased{SerialPhasedExecution(Phase::automatic(8))
                              .setTensorsLiveness(Liveness::OffChipAfterEachPhase)};
  EXPECT_EQ(phased.cppLines()[0],
            "options.setExecutionStrategy(SerialPhasedExecution(Phase::automatic(8))."
            "setTensorsLiveness(Liveness::OffChipAfterEachPhase));");
  EXPECT_EQ(phased.pythonLines()[0],
            "options.setExecutionStrategy(sluice.SerialPhasedExecution(sluice.Phase.automatic(8))."
            "setTensorsLiveness(sluice.Liveness.OffChipAfterEachPhase))");
}

}  // namespace
}  // namespace sluice
