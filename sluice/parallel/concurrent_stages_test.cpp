// Stages that share a place in the pipeline: how they are written, resolved, placed and scheduled.
#include <array>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/parallel/execution_plan.h"
#include "sluice/parallel/strategy.h"
#include "sluice/transforms/autodiff.h"
#include "tests/support/message_of.h"

namespace sluice::parallel {
namespace {

using ir::Graph;
using ir::GraphBuilder;
using ir::Value;
using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Names = std::vector<std::string>;

std::vector<std::int32_t> stageDevicesOf(const StagePlan& plan) {
  std::vector<std::int32_t> devices;
  for (const StageInfo& stage : plan.stages) {
    devices.push_back(stage.device);
  }
  return devices;
}

std::vector<BlockInfo> blocks(std::initializer_list<const char*> names) {
  std::vector<BlockInfo> list;
  for (const char* name : names) {
    list.push_back({name, -1});
  }
  return list;
}

TEST(ConcurrentStages, AreWrittenInThePlaceOfOneStage) {
  const PipelinedExecution strategy{"a", ConcurrentStages(Stage("b").device(2), "c"), "d"};
  ASSERT_EQ(strategy.stages().size(), 3U);
  EXPECT_TRUE(strategy.stage(0).branches().empty());
  EXPECT_EQ(strategy.stage(1).branches().size(), 2U);
  EXPECT_EQ(strategy.stage(1).blocks(), (Names{"b", "c"}));
  EXPECT_EQ(strategy.stage("c").blocks(), Names{"c"});
  EXPECT_EQ(strategy.stage("b").device(), 2);
  EXPECT_EQ(strategy.str(),
            "PipelinedExecution(Stage(\"a\"), ConcurrentStages(Stage(\"b\").device(2), "
            "Stage(\"c\")), Stage(\"d\")).schedule(\"1f1b\")");
}

TEST(ConcurrentStages, GetTheirDevicesOneByOne) {
  PipelinedExecution strategy("a", ConcurrentStages("b", "c"), "d");
  strategy.stage("c").device(5);
  EXPECT_EQ(strategy, PipelinedExecution("a", ConcurrentStages("b", Stage("c").device(5)), "d"));
  EXPECT_THAT(messageOf([&] { strategy.stage(1).device(1); }), HasSubstr("device of its own"));
}

TEST(ConcurrentStages, RefuseWhatCannotBe) {
  EXPECT_THAT(messageOf([] { ConcurrentStages(std::vector<Stage>{"a"}); }),
              HasSubstr("at least two, got 1"));
  EXPECT_THAT(messageOf([] { ConcurrentStages("a", ConcurrentStages("b", "c")); }),
              HasSubstr("plain stages, got ConcurrentStages"));
  EXPECT_THAT(messageOf([] { ConcurrentStages("a", Stage("b", "a")); }), HasSubstr("'a' twice"));
  EXPECT_THAT(messageOf([] { PipelinedExecution("a", ConcurrentStages("b", "a")); }),
              HasSubstr("'a' is in two stages, 0 and 1"));
  EXPECT_THAT(messageOf([] { ShardedExecution("a", ConcurrentStages("b", "c")); }),
              AllOf(HasSubstr("one stage at a time"), HasSubstr("PipelinedExecution")));
}

TEST(ConcurrentStages, CountOnceInThePipeline) {
  const auto abcd = blocks({"a", "b", "c", "d"});
  const StagePlan plan =
      resolveStages(PipelinedExecution("a", ConcurrentStages("b", "c"), "d"), abcd);
  EXPECT_THAT(plan.slotOfStage, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(stageDevicesOf(plan), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(plan.stageOfBlock, ElementsAre(0, 1, 2, 3));
}

TEST(ConcurrentStages, AreNotMergedWithNeighboursOnTheirDevice) {
  const auto at = [](const char* block, std::int64_t device) {
    return Stage(block).device(device);
  };
  const StagePlan plan = resolveStages(
      PipelinedExecution(
          at("a", 1), at("b", 1), ConcurrentStages(at("c", 1), at("d", 2)), at("e", 2), at("f", 2)),
      blocks({"a", "b", "c", "d", "e", "f"}));
  EXPECT_THAT(stageDevicesOf(plan), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(plan.slotOfStage, ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(plan.stages[0].blocks, (Names{"a", "b"}));
  EXPECT_EQ(plan.stages[3].blocks, (Names{"e", "f"}));
}

TEST(ConcurrentStages, NeedDifferentDevices) {
  EXPECT_THAT(messageOf([] {
                resolveStages(PipelinedExecution(
                                  "a", ConcurrentStages(Stage("b").device(2), Stage("c", "d"))),
                              std::vector<BlockInfo>{{"a"}, {"b"}, {"c", 2}, {"d"}});
              }),
              AllOf(HasSubstr("blocks b and c, d"), HasSubstr("both on device 2")));
}

/// a makes y; b and c read it; d joins them. Every block has a weight, trained by plain descent.
struct Fork {
  explicit Fork(bool crossed = false, bool shared = false) {
    GraphBuilder b(graph);
    const Value x = b.input("x", {DType::F32, {3}});
    for (const char* name : {"wa", "wb", "wc", "wd"}) {
      graph.addVariable({.name = name, .type = {DType::F32, {3}}});
    }
    enter(b, "a");
    wa = b.variable("wa");
    y = ops::mul(b, x, wa);
    enter(b, "b");
    wb = b.variable("wb");
    u = ops::mul(b, ops::tanh(b, y), wb);
    enter(b, "c");
    wc = shared ? wb : b.variable("wc");
    v = ops::mul(b, crossed ? u : y, wc);
    enter(b, "d");
    wd = b.variable("wd");
    loss = ops::reduceSum(b, ops::mul(b, ops::add(b, u, v), wd), {});
    graph.addOutput("loss", loss);
  }

  static void enter(GraphBuilder& b, std::string_view block) {
    b.place.block = b.graph().blockIndex(block);
  }

  Graph graph;
  Value wa, wb, wc, wd, y, u, v, loss;
};

const PipelinedExecution& forked() {
  static const PipelinedExecution strategy("a", ConcurrentStages("b", "c"), "d");
  return strategy;
}

ExecutionPlan planOf(Graph& graph, std::int32_t microBatches) {
  PlanDraft draft{forked(), {.microBatches = microBatches}};
  placeOps(graph, draft);
  planStreaming(graph, draft);
  cutStages(graph, draft);
  scheduleRound(draft);
  return draft.plan;
}

TEST(ConcurrentStages, RefuseDependenciesOnEachOther) {
  Fork fork(true);
  EXPECT_THAT(messageOf([&] { planOf(fork.graph, 1); }),
              AllOf(HasSubstr("concurrent stages may not depend on each other"),
                    HasSubstr("of stage 2 reads"),
                    HasSubstr("of stage 1")));
}

TEST(ConcurrentStages, RefuseToShareAVariable) {
  Fork fork(false, true);
  EXPECT_THAT(messageOf([&] { planOf(fork.graph, 1); }),
              AllOf(HasSubstr("may not share a variable"), HasSubstr("'wb'")));
}

TEST(ConcurrentStages, MeetInTheStageBeforeThemOnTheWayBack) {
  Fork fork;
  const std::array<Value, 4> weights = {fork.wa, fork.wb, fork.wc, fork.wd};
  const std::vector<Value> grads = transforms::differentiate(fork.graph, fork.loss, weights);
  for (const Value grad : grads) {
    fork.graph.addOutput(fmt::format("grad {}", grad.op.value), grad);
  }
  const ExecutionPlan plan = planOf(fork.graph, 3);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    EXPECT_EQ(fork.graph.op(grads[i].op).place.stage, static_cast<std::int32_t>(i));
  }
  for (const ir::OpId id : fork.graph.order()) {
    for (const Value v : fork.graph.op(id).inputs) {
      const std::int32_t from = fork.graph.op(v.op).place.stage;
      const std::int32_t to = fork.graph.op(id).place.stage;
      EXPECT_FALSE((from == 1 && to == 2) || (from == 2 && to == 1)) << fork.graph.op(id).name;
    }
  }
  EXPECT_THAT(plan.slotOfStage, ElementsAre(0, 1, 1, 2));
  // The two branches start together, forward and backward.
  using schedule::Work;
  ASSERT_EQ(plan.schedule.devices[1].size(), plan.schedule.devices[2].size());
  const Work& left = plan.schedule.devices[1].front();
  const Work& right = plan.schedule.devices[2].front();
  EXPECT_EQ(left.start, right.start);
  EXPECT_EQ(left.start, plan.schedule.devices[0].front().end);
}

}  // namespace
}  // namespace sluice::parallel
