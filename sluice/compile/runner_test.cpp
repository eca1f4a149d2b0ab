// The runner: order, numbers of dumps, times, cancellation and what it does with a broken rewrite.
#include "sluice/compile/runner.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ir/printer.h"
#include "sluice/ops/arithmetic_ops.h"
#include "tests/support/temp_folder.h"
#include "tests/support/toy_kernels.h"

namespace sluice::compiler {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempFolder;

ir::Graph smallGraph() {
  ir::Graph graph("small");
  ir::GraphBuilder b(graph);
  graph.addOutput("y", ops::neg(b, b.input("x", {DType::F32, Shape{2}})));
  return graph;
}

void doNothing(Compilation&) {}
bool never(const Compilation&) {
  return false;
}
/// A stage below -1 is none.
void breakPlaces(Compilation& c) {
  c.graph.setPlacement(c.graph.order()[0], {.stage = -5});
}
void refuse(Compilation&) {
  raise<InvalidArgument>("this model is not wanted");
}
std::string text(const Compilation& c) {
  return "of " + c.graph.name();
}

constexpr CompileStage rewriteOf(void (*run)(Compilation&)) {
  return {"rewrite", CompilePhase::Trace, CompileStageKind::Rewrite, run};
}

class RunnerTest : public ::testing::Test {
 protected:
  /// Runs all stages of a list on a small graph.
  void run(Runner& runner) {
    request_.graph = smallGraph();
    Compilation c(request_);
    runner.run(c, CompilePhase::Trace, CompilePhase::Load);
  }
  std::string locationOf(const CompileStage& stage) {
    Runner runner(std::span(&stage, 1), {}, "");
    try {
      run(runner);
    } catch (const Error& error) {
      return error.location();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  CompileRequest request_{.graph = smallGraph()};  // a Compilation takes the graph
  TempFolder parent_;
  fs::path folder_ = parent_ / "dumps";  // the runner makes it
};

TEST_F(RunnerTest, FindsARewriteThatBreaksTheGraph) {
  EXPECT_EQ(locationOf(rewriteOf(breakPlaces)), "stage rewrite");
  EXPECT_EQ(locationOf({"dead", CompilePhase::Passes, CompileStageKind::Pass, breakPlaces}),
            "pass dead");
}

TEST_F(RunnerTest, LooksForNoDamageAfterAStepThatCannotDoAny) {
  const CompileStage step{"step", CompilePhase::Plan, CompileStageKind::Step, breakPlaces};
  Runner runner(std::span(&step, 1), {}, "");
  EXPECT_NO_THROW(run(runner));
}

TEST_F(RunnerTest, LooksForNoDamageWhereNothingWasChanged) {
  request_.graph = smallGraph();
  Compilation c(request_);
  breakPlaces(c);
  const std::array same = {rewriteOf(doNothing)};
  Runner idle(same, {}, "");
  EXPECT_NO_THROW(idle.run(c, CompilePhase::Trace, CompilePhase::Load));
  const std::array again = {rewriteOf(breakPlaces)};
  Runner busy(again, {}, "");
  EXPECT_THROW(busy.run(c, CompilePhase::Trace, CompilePhase::Load), InternalError);
}

TEST_F(RunnerTest, LeavesTheErrorsOfUsersAsTheyAreButForPasses) {
  EXPECT_EQ(locationOf(rewriteOf(refuse)), "");
  EXPECT_EQ(locationOf({"dead", CompilePhase::Passes, CompileStageKind::Pass, refuse}),
            "pass dead");
}

TEST_F(RunnerTest, NumbersDumpsByTheList) {
  const std::array list = {
      rewriteOf(doNothing),
      CompileStage{"left_out", CompilePhase::Passes, CompileStageKind::Pass, doNothing, never},
      CompileStage{"fold", CompilePhase::Passes, CompileStageKind::Pass, doNothing},
      CompileStage{"mute", CompilePhase::Plan, CompileStageKind::Step, doNothing},
      CompileStage{"order", CompilePhase::Plan, CompileStageKind::Step, doNothing, nullptr, text}};
  Runner runner(list, {}, folder_.string());
  run(runner);
  EXPECT_THAT(files(), ElementsAre("00_rewrite.txt", "02_fold.txt", "04_order.txt"));
  const auto read = [&](const char* file) {
    std::ostringstream all;
    all << std::ifstream(folder_ / file).rdbuf();
    return all.str();
  };
  EXPECT_EQ(read("02_fold.txt"), ir::print(smallGraph()));
  EXPECT_EQ(read("04_order.txt"), "of small");
}

TEST_F(RunnerTest, WritesTheDumpsOfThePlanThatWasChosen) {
  const std::array list = {
      CompileStage{"order", CompilePhase::Plan, CompileStageKind::Step, doNothing, nullptr, text}};
  Runner runner(list, {}, folder_.string());
  Compilation first(request_);
  Compilation second = first;
  second.graph.setName("other");
  for (Compilation* each : {&first, &second}) {
    runner.run(*each, CompilePhase::Plan, CompilePhase::Plan);
  }
  runner.dumpAgain(first);
  std::ostringstream all;
  all << std::ifstream(folder_ / "00_order.txt").rdbuf();
  EXPECT_EQ(all.str(), "of small");
}

TEST_F(RunnerTest, ReportsADumpThatCannotBeWritten) {
  std::ofstream(folder_) << "in the way";
  const CompileStage stage = rewriteOf(doNothing);
  Runner runner(std::span(&stage, 1), {}, folder_.string());
  EXPECT_THROW(run(runner), FileError);
}

TEST_F(RunnerTest, TimesEveryStageThatRan) {
  const std::array list = {
      rewriteOf(doNothing),
      CompileStage{"left_out", CompilePhase::Passes, CompileStageKind::Pass, doNothing, never},
      CompileStage{"order", CompilePhase::Plan, CompileStageKind::Step, doNothing}};
  // Every look at the clock is a second later.
  int looks = 0;
  Runner runner(
      list, {}, "", [&] { return Runner::Clock::time_point(std::chrono::seconds(looks++)); });
  run(runner);
  Compilation again(request_);
  runner.run(again, CompilePhase::Plan, CompilePhase::Plan);
  const std::vector<StageTime> times = runner.times();
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].name, "rewrite");
  EXPECT_EQ(times[0].phase, CompilePhase::Trace);
  EXPECT_EQ(times[0].seconds, 1);
  EXPECT_EQ(times[1].name, "order");
  EXPECT_EQ(times[1].seconds, 2);
}

TEST_F(RunnerTest, AsksBeforeEveryStageAndBeginsEachPhaseOnce) {
  const std::array list = {
      rewriteOf(doNothing),
      CompileStage{"fold", CompilePhase::Passes, CompileStageKind::Pass, doNothing},
      CompileStage{"place", CompilePhase::Plan, CompileStageKind::Rewrite, doNothing},
      CompileStage{"order", CompilePhase::Plan, CompileStageKind::Step, doNothing}};
  int asked = 0;
  std::vector<CompilePhase> phases;
  Runner runner(list,
                {.requireGoing = [&] { ++asked; },
                 .onPhase = [&](CompilePhase phase) { phases.push_back(phase); }},
                "");
  run(runner);
  EXPECT_EQ(asked, 4);
  Compilation again(request_);
  runner.run(again, CompilePhase::Plan, CompilePhase::Plan);
  EXPECT_THAT(phases, ElementsAre(CompilePhase::Passes, CompilePhase::Plan));
  EXPECT_EQ(asked, 6);
  Runner silent = runner.silent();
  silent.run(again, CompilePhase::Plan, CompilePhase::Plan);
  EXPECT_EQ(asked, 8);
  EXPECT_EQ(phases.size(), 2U);
  EXPECT_THAT(runner.times(), ::testing::SizeIs(4));
}

TEST_F(RunnerTest, StopsBetweenTwoStages) {
  const std::array list = {rewriteOf(doNothing), rewriteOf(refuse)};
  int asked = 0;
  Runner runner(list,
                {.requireGoing =
                     [&] {
                       if (++asked == 2) {
                         raise<Cancelled>("enough");
                       }
                     }},
                "");
  EXPECT_THROW(run(runner), Cancelled);
}

// --- the list ---

std::vector<std::string_view> namesOf(CompilePhase first, CompilePhase last) {
  std::vector<std::string_view> names;
  for (const CompileStage& stage : compileStages()) {
    if (stage.phase >= first && stage.phase <= last) {
      names.push_back(stage.name);
    }
  }
  return names;
}

TEST(CompileStages, AreInTheirOrder) {
  EXPECT_THAT(namesOf(CompilePhase::Trace, CompilePhase::Trace),
              ElementsAre("annotate_phases",
                          "annotate_stages",
                          "anchor_forward",
                          "synthetic_inputs",
                          "decompose_all",
                          "differentiate",
                          "optimizer",
                          "gather_early",
                          "anchor_backward",
                          "outputs",
                          "step"));
  EXPECT_THAT(namesOf(CompilePhase::Passes, CompilePhase::Passes),
              ElementsAre("shard_weights",
                          "fold_batch_norm",
                          "decompose",
                          "shard_updates",
                          "fold_constants",
                          "eliminate_common",
                          "eliminate_dead",
                          "fuse_elementwise",
                          "fuse_epilogues",
                          "eliminate_dead"));
  EXPECT_THAT(namesOf(CompilePhase::Plan, CompilePhase::Load),
              ElementsAre("place",
                          "continuous_updates",
                          "relay_copies",
                          "recompute",
                          "fit_kernels",
                          "stream",
                          "cut",
                          "schedule",
                          "check_rules",
                          "emit",
                          "plan_memory",
                          "verify"));
  EXPECT_TRUE(std::ranges::is_sorted(compileStages(), {}, &CompileStage::phase));
}

TEST(CompileStages, OfAGraphOfTheCommandLineAreTimedAndDumped) {
  const TempFolder folder;
  CompileRequest request{.graph = smallGraph()};
  request.dumpFolder = folder.path().string();
  request.lower.targets = program::toyTargets();
  const Compiled made = compileGraph(std::move(request));
  EXPECT_TRUE(made.proven);
  EXPECT_EQ(made.program.name, "small");
  std::vector<std::string_view> timed;
  for (const StageTime& time : made.times) {
    timed.push_back(time.name);
    EXPECT_GE(time.seconds, 0);
  }
  EXPECT_THAT(timed,
              ElementsAre("step",
                          "shard_weights",
                          "decompose",
                          "shard_updates",
                          "fold_constants",
                          "eliminate_common",
                          "eliminate_dead",
                          "fuse_elementwise",
                          "fuse_epilogues",
                          "eliminate_dead",
                          "place",
                          "stream",
                          "cut",
                          "schedule",
                          "check_rules",
                          "emit",
                          "plan_memory",
                          "verify"));
  EXPECT_TRUE(fs::exists(folder / "21_place.txt"));
  std::ostringstream program;
  program << std::ifstream(folder / "program.txt").rdbuf();
  EXPECT_EQ(program.str(), program::print(made.program));
}

TEST(CompileStages, StopAfterThePhaseThatWasAskedFor) {
  CompileRequest request{.graph = smallGraph()};
  request.last = CompilePhase::Passes;
  const Compiled made = compileGraph(std::move(request));
  EXPECT_THAT(made.program.lanes, IsEmpty());
  EXPECT_EQ(made.times.back().name, "eliminate_dead");
}

}  // namespace
}  // namespace sluice::compiler
