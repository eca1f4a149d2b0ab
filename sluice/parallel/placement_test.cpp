// Placement against stages and devices worked out by hand on small graphs.
#include "sluice/parallel/placement.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/transforms/autodiff.h"
#include "tests/support/tensor_types.h"

namespace sluice::parallel {
namespace {

using testing::f32;

using ir::Graph;
using ir::GraphBuilder;
using ir::OpId;
using ir::Pass;
using ir::Value;
using ::testing::AllOf;
using ::testing::HasSubstr;

void enter(GraphBuilder& b, std::string_view block) {
  b.place.block = b.graph().blockIndex(block);
}

void addWeight(Graph& graph, const std::string& name, Shape shape = {3}) {
  graph.addVariable({.name = name, .type = f32(std::move(shape))});
}

const ir::Placement& placeOf(const Graph& graph, Value value) {
  return graph.op(value.op).place;
}

/// The device of the only op that reads or assigns the variable in the update.
std::vector<std::int32_t> updateDevices(const Graph& graph, std::string_view variable) {
  std::vector<std::int32_t> devices;
  for (const OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.place.pass == Pass::Update && (op.is(ir::kVariable) || op.is(ir::kAssign)) &&
        op.attrs.text("var") == variable) {
      devices.push_back(op.place.device);
    }
  }
  return devices;
}

template <class F>
std::string complaint(const F& place) {
  try {
    place();
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "";
}

TEST(PlaceByBlocks, GivesOpsTheStageOfTheirBlockAndItsDevice) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({3}));
  enter(b, "a");
  const Value y = ops::exp(b, x);
  enter(b, "b");
  const Value z = ops::neg(b, y);
  graph.addOutput("z", z);
  VariableHomes homes;
  placeByBlocks(graph, {.deviceOfStage = {4, 2}, .stageOfBlock = {0, 1}}, homes);
  EXPECT_EQ(placeOf(graph, x).stage, 0);
  EXPECT_EQ(placeOf(graph, x).device, 4);
  EXPECT_EQ(placeOf(graph, y).device, 4);
  EXPECT_EQ(placeOf(graph, z).stage, 1);
  EXPECT_EQ(placeOf(graph, z).device, 2);
  EXPECT_TRUE(homes.empty());
}

TEST(PlaceByBlocks, RefusesDataThatFlowsToAnEarlierStage) {
  Graph graph;
  GraphBuilder b(graph);
  b.scope = "late/";
  enter(b, "a");
  const Value y = ops::exp(b, b.input("x", f32({3})));
  b.scope = "early/";
  enter(b, "b");
  graph.addOutput("z", ops::neg(b, y));
  VariableHomes homes;
  EXPECT_THAT(complaint([&] {
                placeByBlocks(graph, {.deviceOfStage = {0, 1}, .stageOfBlock = {1, 0}}, homes);
              }),
              HasSubstr("'early/neg' of stage 0 reads 'late/exp' of stage 1"));
}

TEST(PlaceByBlocks, RefusesAnOpOutsideOfAllBlocks) {
  Graph graph;
  GraphBuilder b(graph);
  const Value y = ops::exp(b, b.input("x", f32({3})));
  enter(b, "a");
  graph.addOutput("z", ops::neg(b, y));
  VariableHomes homes;
  EXPECT_THAT(
      complaint([&] { placeByBlocks(graph, {.deviceOfStage = {0}, .stageOfBlock = {0}}, homes); }),
      AllOf(HasSubstr("'exp'"), HasSubstr("no active block")));
}

/// Blocks a and b use the weight w; a makes early, which b reads too.
struct Tied {
  Graph graph;
  Value w;
  Value early;
  std::vector<Value> grads;

  Tied() {
    GraphBuilder b(graph);
    addWeight(graph, "w");
    const Value x = b.input("x", f32({3}));
    enter(b, "a");
    w = b.variable("w");
    early = ops::mul(b, x, w);
    enter(b, "b");
    const Value y = ops::mul(b, ops::exp(b, early), w);
    const Value loss = ops::reduceSum(b, ops::mul(b, y, early), {});
    const std::array<Value, 1> wrt = {w};
    grads = transforms::differentiate(graph, loss, wrt);
    graph.addOutput("loss", loss);
  }
};

TEST(PlaceByBlocks, PutsJoinsOfGradientsIntoTheEarliestOfTheirStages) {
  Tied t;
  VariableHomes homes;
  placeByBlocks(t.graph, {.deviceOfStage = {5, 7}, .stageOfBlock = {0, 1}}, homes);
  // The gradient of w is a sum over its uses in both stages, so it is made in the first one.
  EXPECT_EQ(placeOf(t.graph, t.grads[0]).stage, 0);
  EXPECT_EQ(placeOf(t.graph, t.grads[0]).device, 5);
  EXPECT_EQ(homes.at("w"), 5);
  for (const OpId id : t.graph.order()) {
    const ir::Op& op = t.graph.op(id);
    for (const Value v : op.inputs) {
      const ir::Op& producer = t.graph.op(v.op);
      if (op.place.pass == Pass::Backward && producer.place.pass == Pass::Backward &&
          !producer.is(ir::kConstant)) {
        EXPECT_LE(op.place.stage, producer.place.stage) << op.name << " reads " << producer.name;
      }
    }
  }
}

TEST(PlaceByBlocks, PutsLeavesWhereTheyAreReadFirstInTheFlow) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({3}));
  const Value unread = b.input("unread", f32({3}));
  const Value shift = b.constant(HostTensor::full(f32({3}), 2));
  enter(b, "a");
  const Value first = ops::exp(b, b.input("other", f32({3})));
  enter(b, "b");
  const Value late = ops::mul(b, x, shift);
  const Value last = b.constant(HostTensor::full(f32({3}), 5));
  enter(b, "a");  // comes back: the second stage has read x before, in the order of the graph
  const Value again = ops::add(b, x, first);
  enter(b, "b");
  graph.addOutput("y", ops::add(b, ops::add(b, again, late), last));
  VariableHomes homes;
  placeByBlocks(graph, {.deviceOfStage = {0, 1}, .stageOfBlock = {0, 1}}, homes);
  EXPECT_EQ(placeOf(graph, x).stage, 0);
  EXPECT_EQ(placeOf(graph, shift).stage, 1);
  EXPECT_EQ(placeOf(graph, last).stage, 1);
  EXPECT_EQ(placeOf(graph, unread).stage, 0);
}

TEST(PlaceByBlocks, PutsLeavesOfTheBackwardPassWithTheLastStage) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({3}));
  enter(b, "a");
  const Value y = ops::exp(b, x);
  enter(b, "b");
  const Value z = ops::exp(b, y);
  b.place.pass = Pass::Backward;
  const Value one = b.constant(HostTensor::full(f32({3}), 1));
  enter(b, "a");
  const Value inA = ops::mul(b, y, one);  // before the other one in the order of the graph
  enter(b, "b");
  const Value inB = ops::mul(b, z, one);
  graph.addOutput("a", inA);
  graph.addOutput("b", inB);
  VariableHomes homes;
  placeByBlocks(graph, {.deviceOfStage = {0, 1}, .stageOfBlock = {0, 1}}, homes);
  EXPECT_EQ(placeOf(graph, one).stage, 1);
}

TEST(PlaceByBlocks, RunsTheUpdateWhereItsVariableLives) {
  Tied t;
  GraphBuilder b(t.graph);
  addWeight(t.graph, "g");
  addWeight(t.graph, "m");
  t.graph.addVariable({.name = "rate", .type = f32({})});
  b.place = placeOf(t.graph, t.grads[0]);
  b.assign("g", t.grads[0], "sum");
  b.place = {};
  b.place.pass = Pass::Update;
  const Value rate = b.variable("rate");
  const Value half = ops::mul(b, rate, b.scalar(DType::F32, 0.5));
  const Value m = ops::add(b, b.variable("m"), b.variable("g"));
  b.assign("m", m);
  const Value step = ops::mul(b, m, half);
  b.assign("w", ops::sub(b, b.variable("w"), step));
  VariableHomes homes;
  placeByBlocks(t.graph, {.deviceOfStage = {3, 1}, .stageOfBlock = {0, 1}}, homes);
  EXPECT_EQ(homes.at("w"), 3);
  EXPECT_EQ(homes.at("g"), 3);
  EXPECT_EQ(homes.at("m"), 3);  // known only by the gradient it is added to
  EXPECT_THAT(updateDevices(t.graph, "w"), ::testing::Each(3));
  EXPECT_THAT(updateDevices(t.graph, "m"), ::testing::ElementsAre(3, 3));
  EXPECT_EQ(placeOf(t.graph, step).device, 3);
  // What serves all variables is on one device, and has a home there.
  EXPECT_EQ(placeOf(t.graph, half).device, placeOf(t.graph, rate).device);
  EXPECT_EQ(homes.at("rate"), placeOf(t.graph, rate).device);
  for (const OpId id : t.graph.order()) {
    EXPECT_GE(t.graph.op(id).place.device, 0) << t.graph.op(id).name;
  }
}

TEST(PlaceByBlocks, KeepsTheHomesThatOtherProgramsGaveToVariables) {
  Tied t;
  GraphBuilder b(t.graph);
  b.place.pass = Pass::Update;
  b.assign("w", ops::mul(b, b.variable("w"), b.scalar(DType::F32, 0.5)));
  VariableHomes homes = {{"w", 1}, {"elsewhere", 6}};
  placeByBlocks(t.graph, {.deviceOfStage = {0, 1}, .stageOfBlock = {0, 1}}, homes);
  EXPECT_EQ(homes.at("w"), 1);
  EXPECT_EQ(homes.at("elsewhere"), 6);
  EXPECT_THAT(updateDevices(t.graph, "w"), ::testing::ElementsAre(1, 1));
  EXPECT_EQ(placeOf(t.graph, t.w).stage, 0);  // the read stays with its reader
}

TEST(PlaceByBlocks, RefusesAVariableThatTheFlowWouldReadTooLate) {
  Graph graph;
  GraphBuilder b(graph);
  addWeight(graph, "mean");
  const Value x = b.input("x", f32({3}));
  enter(b, "b");
  const Value old = ops::add(b, x, b.variable("mean"));
  enter(b, "a");  // in the order of the graph behind the read, in the pipeline before it
  b.assign("mean", ops::exp(b, x));
  graph.addOutput("y", old);
  VariableHomes homes;
  EXPECT_THAT(complaint([&] {
                placeByBlocks(graph, {.deviceOfStage = {0, 0}, .stageOfBlock = {1, 0}}, homes);
              }),
              AllOf(HasSubstr("variable 'mean'"), HasSubstr("stage 1"), HasSubstr("stage 0")));
}

/// exp in stage `first` on device `d0`, neg in stage `second` on device `d1`.
Graph annotated(std::int32_t first, std::int32_t d0, std::int32_t second, std::int32_t d1) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({3}));
  b.place.stage = first;
  b.place.device = d0;
  const Value y = ops::exp(b, x);
  b.place.stage = second;
  b.place.device = d1;
  graph.addOutput("y", ops::neg(b, y));
  return graph;
}

std::vector<std::pair<std::int32_t, std::int32_t>> placesOf(const Graph& graph) {
  std::vector<std::pair<std::int32_t, std::int32_t>> places;
  for (const OpId id : graph.order()) {
    places.emplace_back(graph.op(id).place.stage, graph.op(id).place.device);
  }
  return places;
}

TEST(PlaceByAnnotations, TakesStagesAndDevicesAsTheyAre) {
  using ::testing::ElementsAre;
  using ::testing::Pair;
  VariableHomes homes;
  Graph both = annotated(0, 3, 1, 2);
  placeByAnnotations(both, homes);
  EXPECT_THAT(placesOf(both), ElementsAre(Pair(0, 3), Pair(0, 3), Pair(1, 2)));
  Graph stages = annotated(0, -1, 1, -1);  // without a device the stage's number is the device
  placeByAnnotations(stages, homes);
  EXPECT_THAT(placesOf(stages), ElementsAre(Pair(0, 0), Pair(0, 0), Pair(1, 1)));
  Graph devices = annotated(-1, 0, -1, 1);  // without stages the device is the stage
  placeByAnnotations(devices, homes);
  EXPECT_THAT(placesOf(devices), ElementsAre(Pair(0, 0), Pair(0, 0), Pair(1, 1)));
}

TEST(PlaceByAnnotations, RefusesStagesOnSomeOpsOnlyAndAStageOnTwoDevices) {
  VariableHomes homes;
  Graph partial = annotated(0, -1, -1, -1);
  EXPECT_THAT(
      complaint([&] { placeByAnnotations(partial, homes); }),
      AllOf(HasSubstr("only some ops"), HasSubstr("1 have one, 1 have not"), HasSubstr("'neg'")));
  Graph twice = annotated(0, 1, 0, 2);
  EXPECT_THAT(
      complaint([&] { placeByAnnotations(twice, homes); }),
      AllOf(HasSubstr("stage 0 is on device 1"), HasSubstr("'neg'"), HasSubstr("device 2")));
  Graph backwards = annotated(1, -1, 0, -1);
  EXPECT_THAT(complaint([&] { placeByAnnotations(backwards, homes); }),
              AllOf(HasSubstr("'neg' of stage 0 reads 'exp'"), HasSubstr("stage 1")));
}

}  // namespace
}  // namespace sluice::parallel
