// Cutting against segments worked out by hand.
#include "sluice/parallel/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/parallel/placement.h"
#include "tests/support/tensor_types.h"

namespace sluice::parallel {
namespace {

using testing::f32;

using ir::Graph;
using ir::GraphBuilder;
using ir::Pass;
using ir::Value;
using ::testing::ElementsAre;

/// An op at a stage (and device) of a pass, as placement would leave it.
void at(GraphBuilder& b, Pass pass, std::int32_t stage, std::int32_t device) {
  b.place.pass = pass;
  b.place.stage = stage;
  b.place.device = device;
}

SegmentInfo segmentOf(const SegmentPlan& plan, Value value) {
  return plan.segments[static_cast<std::size_t>(plan.of(value.op))];
}

TEST(CutSegments, FollowsStagesForwardAndBack) {
  Graph graph;
  GraphBuilder b(graph);
  at(b, Pass::Forward, 0, 2);
  const Value y = ops::exp(b, b.input("x", f32({3})));
  at(b, Pass::Forward, 1, 0);
  const Value z = ops::neg(b, y);
  at(b, Pass::Backward, 1, 0);
  const Value dz = ops::mul(b, z, z);
  at(b, Pass::Backward, 0, 2);
  graph.addOutput("dy", ops::mul(b, dz, y));
  const SegmentPlan plan = cutSegments(graph, {});
  EXPECT_THAT(plan.segments,
              ElementsAre(SegmentInfo{SegmentKind::Forward, 2, 0, 0},
                          SegmentInfo{SegmentKind::Forward, 0, 1, 0},
                          SegmentInfo{SegmentKind::Backward, 0, 1, 0},
                          SegmentInfo{SegmentKind::Backward, 2, 0, 0}));
  EXPECT_THAT(plan.deviceOfStage, ElementsAre(2, 0));
  EXPECT_EQ(plan.devices, 3);
  EXPECT_EQ(plan.of(y.op), 0);
  EXPECT_EQ(plan.of(dz.op), 2);
}

TEST(CutSegments, SplitsTheBackwardPassByWhatOtherStagesWaitFor) {
  Graph graph;
  GraphBuilder b(graph);
  graph.addVariable({.name = "g", .type = f32({3})});
  at(b, Pass::Forward, 0, 0);
  const Value y = ops::exp(b, b.input("x", f32({3})));
  at(b, Pass::Forward, 1, 1);
  const Value z = ops::neg(b, y);
  at(b, Pass::Backward, 1, 1);
  const Value shared = ops::mul(b, z, z);       // feeds both parts
  const Value weight = ops::mul(b, shared, y);  // ends here
  b.assign("g", weight, "sum");
  const Value input = ops::neg(b, shared);  // goes to stage 0
  at(b, Pass::Backward, 0, 0);
  const Value last = ops::mul(b, input, y);
  graph.addOutput("last", last);
  const SegmentPlan plan = cutSegments(graph, {.splitBackward = true});
  EXPECT_EQ(segmentOf(plan, shared).kind, SegmentKind::BackwardInput);
  EXPECT_EQ(segmentOf(plan, input).kind, SegmentKind::BackwardInput);
  EXPECT_EQ(segmentOf(plan, weight).kind, SegmentKind::BackwardWeight);
  EXPECT_EQ(segmentOf(plan, last).kind, SegmentKind::BackwardWeight);  // nobody is before stage 0
  EXPECT_THAT(plan.segments,
              ElementsAre(SegmentInfo{SegmentKind::Forward, 0, 0, 0},
                          SegmentInfo{SegmentKind::Forward, 1, 1, 0},
                          SegmentInfo{SegmentKind::BackwardInput, 1, 1, 0},
                          SegmentInfo{SegmentKind::BackwardWeight, 1, 1, 0},
                          SegmentInfo{SegmentKind::BackwardWeight, 0, 0, 0}));
}

TEST(CutSegments, CutsPassesOfAStageWhereReplicasExchange) {
  Graph graph;
  GraphBuilder b(graph);
  graph.addVariable({.name = "count", .type = f32({3}), .role = ir::VariableRole::Buffer});
  at(b, Pass::Forward, 0, 0);
  const Value x = b.input("x", f32({3}));
  const Value y = ops::exp(b, x);
  const Value sum = ops::replicaSum(b, y);
  const Value beside = ops::neg(b, x);
  const Value behind = ops::add(b, sum, beside);
  b.assign("count", behind);
  const Value counted = ops::neg(b, b.variable("count"));  // reads nothing of the exchange itself
  const Value twice = ops::replicaSum(b, ops::replicaSum(b, behind));
  at(b, Pass::Forward, 1, 0);
  const Value next = ops::neg(b, sum);
  at(b, Pass::Backward, 1, 0);
  const Value dSum = ops::replicaSum(b, next);
  graph.addOutput("dy", ops::mul(b, dSum, twice));
  graph.addOutput("counted", counted);
  const SegmentPlan plan = cutSegments(graph, {});
  EXPECT_THAT(plan.segments,
              ElementsAre(SegmentInfo{SegmentKind::Forward, 0, 0, 0},
                          SegmentInfo{SegmentKind::Forward, 0, 0, 1},
                          SegmentInfo{SegmentKind::Forward, 0, 0, 2},
                          SegmentInfo{SegmentKind::Forward, 0, 1, 0},
                          SegmentInfo{SegmentKind::Backward, 0, 1, 0},
                          SegmentInfo{SegmentKind::Backward, 0, 1, 1}));
  EXPECT_EQ(segmentOf(plan, sum).part, 0);
  EXPECT_EQ(segmentOf(plan, beside).part, 0);
  EXPECT_EQ(segmentOf(plan, behind).part, 1);
  EXPECT_EQ(segmentOf(plan, counted).part, 1);
  EXPECT_EQ(segmentOf(plan, twice).part, 2);
  EXPECT_EQ(segmentOf(plan, next).part, 0);
}

TEST(CutSegments, CutsTheUpdateWhereDevicesExchangeNorms) {
  // Squares on each device, their sum on device 0, and both weights scaled by it.
  Graph graph;
  GraphBuilder b(graph);
  for (const char* name : {"u", "v"}) {
    graph.addVariable({.name = name, .type = f32({3})});
  }
  at(b, Pass::Update, 0, 0);
  const Value u = b.variable("u");
  const Value uu = ops::reduceSum(b, ops::square(b, u), {});
  at(b, Pass::Update, 0, 1);
  const Value v = b.variable("v");
  const Value vv = ops::reduceSum(b, ops::square(b, v), {});
  at(b, Pass::Update, 0, 0);
  const Value norm = ops::add(b, uu, vv);
  const Value newU = ops::mul(b, u, norm);
  b.assign("u", newU);
  at(b, Pass::Update, 0, 1);
  const Value newV = ops::mul(b, v, norm);
  b.assign("v", newV);
  const SegmentPlan plan = cutSegments(graph, {});
  EXPECT_EQ(segmentOf(plan, uu), (SegmentInfo{SegmentKind::Update, 0, 0, 0}));
  EXPECT_EQ(segmentOf(plan, vv), (SegmentInfo{SegmentKind::Update, 1, 0, 0}));
  EXPECT_EQ(segmentOf(plan, norm), (SegmentInfo{SegmentKind::Update, 0, 0, 1}));
  EXPECT_EQ(segmentOf(plan, newU), (SegmentInfo{SegmentKind::Update, 0, 0, 1}));
  EXPECT_EQ(segmentOf(plan, newV), (SegmentInfo{SegmentKind::Update, 1, 0, 2}));
  EXPECT_EQ(plan.segments.size(), 4U);
}

TEST(CutSegments, KeepsReadsOfAVariableInFrontOfItsLaterWrites) {
  Graph graph;
  GraphBuilder b(graph);
  for (const char* name : {"u", "v"}) {
    graph.addVariable({.name = name, .type = f32({3})});
  }
  at(b, Pass::Update, 0, 0);
  const Value u = b.variable("u");
  at(b, Pass::Update, 0, 1);
  b.assign("v", u);  // behind an exchange
  const Value v = b.variable("v");
  const Value after = ops::neg(b, v);
  b.assign("v", after);
  const SegmentPlan plan = cutSegments(graph, {});
  EXPECT_EQ(segmentOf(plan, v).part, 1);
  EXPECT_EQ(segmentOf(plan, after).part, 1);
}

TEST(CutSegments, RefusesAGraphThatIsNotPlaced) {
  Graph graph;
  GraphBuilder b(graph);
  graph.addOutput("y", ops::exp(b, b.input("x", f32({3}))));
  EXPECT_THROW(cutSegments(graph, {}), InternalError);
}

TEST(EstimateWork, CountsWhatTheBackwardPassReadsAsStash) {
  Graph graph;
  GraphBuilder b(graph);
  at(b, Pass::Forward, 0, 0);
  const Value y = ops::exp(b, b.input("x", f32({3})));
  const Value z = ops::exp(b, y);
  at(b, Pass::Backward, 0, 0);
  const Value dz = ops::mul(b, z, z);
  graph.addOutput("dx", ops::mul(b, dz, z));
  const std::vector<StageWork> work = estimateWork(graph, cutSegments(graph, {}));
  ASSERT_EQ(work.size(), 1U);
  EXPECT_EQ(work[0].stashBytes, 12);  // z, once
  EXPECT_EQ(work[0].forward, 400);    // two ops of the least cost
  EXPECT_EQ(work[0].backwardInput, 400);
  EXPECT_EQ(work[0].backwardWeight, 0);
}

}  // namespace
}  // namespace sluice::parallel
