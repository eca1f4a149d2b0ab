// Copies that pass through every stage, on small placed graphs.
#include "sluice/parallel/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/ir/verify.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/parallel/placement.h"
#include "sluice/transforms/autodiff.h"

namespace sluice::parallel {
namespace {

using ir::Graph;
using ir::GraphBuilder;
using ir::Op;
using ir::OpId;
using ir::Pass;
using ir::Value;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// y = tanh(-exp(x)) + exp(x) + x with its gradient: exp in stage 0, neg in 1, tanh in 2, the sums
/// in 3. Everything that skips stages does so forward and back.
Graph skipping(const std::vector<std::int32_t>& deviceOfStage) {
  Graph graph;
  GraphBuilder b(graph);
  const auto enter = [&](const char* block) { b.place.block = graph.blockIndex(block); };
  const Value x = b.input("x", {DType::F32, Shape{3}});
  enter("s0");
  const Value early = ops::exp(b, x);
  enter("s1");
  Value y = ops::neg(b, early);
  enter("s2");
  y = ops::tanh(b, y);
  enter("s3");
  y = ops::add(b, ops::add(b, y, early), x);
  const Value loss = ops::reduceSum(b, y, {0}, false);
  graph.addOutput("loss", loss);
  graph.addOutput("dx", transforms::differentiate(graph, loss, std::vector{x})[0]);
  VariableHomes homes;
  placeByBlocks(graph, {.deviceOfStage = deviceOfStage, .stageOfBlock = {0, 1, 2, 3}}, homes);
  return graph;
}

std::vector<std::string> relaysOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (op.name.starts_with("relay")) {
      names.push_back((op.place.pass == Pass::Forward ? "F " : "B ") + op.name);
    }
  }
  return names;
}

/// Reads on another device from a stage that is no neighbour.
std::vector<std::string> longReads(const Graph& graph) {
  std::vector<std::string> names;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    for (const Value v : op.inputs) {
      const Op& producer = graph.op(v.op);
      if (!producer.is(ir::kConstant) && producer.place.device != op.place.device &&
          std::abs(producer.place.stage - op.place.stage) > 1) {
        names.push_back(op.name + " reads " + producer.name);
      }
    }
  }
  return names;
}

std::vector<std::uint64_t> valuesOf(const Graph& graph) {
  ops::TensorMap variables;
  const ops::TensorMap inputs = {{"x", HostTensor::of<float>(Shape{3}, {0.5F, -1, 2})}};
  std::vector<std::uint64_t> hashes;
  for (const auto& [name, value] : ops::evaluate(graph, inputs, variables)) {
    hashes.push_back(value.hash());
  }
  return hashes;
}

TEST(RelayCopies, PassThroughEveryStageForwardAndBack) {
  const std::vector<std::int32_t> devices = {0, 1, 2, 3};
  Graph graph = skipping(devices);
  const std::vector<std::uint64_t> before = valuesOf(graph);
  ASSERT_FALSE(longReads(graph).empty());
  relayCopies(graph, devices);
  ir::verify(graph);
  EXPECT_THAT(longReads(graph), IsEmpty());
  EXPECT_EQ(valuesOf(graph), before);
  // Forward exp(x) and x itself reach stage 3 through 1 and 2. Back come the gradients of both.
  std::size_t forward = 0;
  std::size_t backward = 0;
  for (const std::string& name : relaysOf(graph)) {
    (name.starts_with("F") ? forward : backward) += 1;
  }
  EXPECT_EQ(forward, 4U);
  EXPECT_GE(backward, 2U);
  EXPECT_THAT(relaysOf(graph), ::testing::Contains("F relay1/exp"));
  EXPECT_THAT(relaysOf(graph), ::testing::Contains("F relay2/x"));
}

TEST(RelayCopies, AreNotMadeOnTheDeviceWhereTheValueIs) {
  // Stages 0 and 3 share a device: what they exchange waits there. Only a gradient for stage 1 has
  // a stage to pass.
  Graph graph = skipping({0, 1, 2, 0});
  relayCopies(graph, std::vector<std::int32_t>{0, 1, 2, 0});
  EXPECT_THAT(relaysOf(graph), ElementsAre("B relay2/grad/reduce_sum/broadcast_to"));
  // Stages 0 and 1 share one: a hop is saved.
  Graph pair = skipping({0, 0, 1, 2});
  relayCopies(pair, std::vector<std::int32_t>{0, 0, 1, 2});
  std::vector<std::string> forward = relaysOf(pair);
  std::erase_if(forward, [](const std::string& name) { return name.starts_with("B"); });
  EXPECT_THAT(forward, ElementsAre("F relay2/exp", "F relay2/x"));
}

TEST(RelayCopies, LeaveAGraphOfNeighboursAlone) {
  Graph graph = skipping({0, 0, 0, 1});
  const std::size_t ops = graph.numOps();
  relayCopies(graph, std::vector<std::int32_t>{0, 0, 0, 1});
  EXPECT_EQ(graph.numOps(), ops);
}

}  // namespace
}  // namespace sluice::parallel
