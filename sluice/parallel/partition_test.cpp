#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/parallel/strategy.h"
#include "tests/support/message_of.h"

namespace sluice::parallel {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A chain of additions of weights; `elements` gives the size of each weight.
struct BlockChain {
  ir::Graph graph;
  std::vector<ir::OpId> ops;

  explicit BlockChain(const std::vector<std::int64_t>& elements) {
    ir::GraphBuilder b(graph);
    ir::Value x = b.input("x", {DType::F32, Shape{}});
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const std::string name = "w" + std::to_string(i);
      graph.addVariable({.name = name, .type = {DType::F32, Shape{elements[i]}}});
      x = ops::add(b, x, ops::reduceSum(b, b.variable(name), {0}, false));
      ops.push_back(x.op);
    }
    graph.addOutput("y", x);
  }
  void annotate(std::vector<std::int32_t> devices, std::vector<std::int32_t> stages = {}) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const ir::OpId id : {graph.op(ops[i]).inputs[1].op, ops[i]}) {
        ir::Placement place = graph.op(id).place;
        place.device = devices[i];
        place.stage = stages.empty() ? -1 : stages[i];
        graph.setPlacement(id, place);
      }
    }
  }
  std::vector<std::int32_t> devices() const { return read(&ir::Placement::device); }
  std::vector<std::int32_t> stages() const { return read(&ir::Placement::stage); }
  std::vector<std::int32_t> read(std::int32_t ir::Placement::*field) const {
    std::vector<std::int32_t> all;
    for (const ir::OpId id : ops) {
      all.push_back(graph.op(id).place.*field);
    }
    return all;
  }
};

PartitionOptions pipelined(VirtualGraphMode mode) {
  return {.mode = mode, .pipelining = true};
}

TEST(AnnotateStages, TakesTheDeviceAsStageWhenNoOpHasOne) {
  BlockChain chain({1, 1, 1});
  chain.annotate({0, 0, 1});
  annotateStages(chain.graph, pipelined(VirtualGraphMode::Manual));
  EXPECT_THAT(chain.stages(), ElementsAre(0, 0, 1));
  EXPECT_THAT(chain.devices(), ElementsAre(0, 0, 1));
}

TEST(AnnotateStages, MergesNeighboursOnOneDevice) {
  BlockChain chain({1, 1, 1, 1});
  chain.annotate({0, 1, 1, 0}, {0, 2, 5, 7});
  annotateStages(chain.graph, pipelined(VirtualGraphMode::Manual));
  EXPECT_THAT(chain.stages(), ElementsAre(0, 1, 1, 2));
}

TEST(AnnotateStages, WithoutPipeliningFollowsTheOrderOfTheGraph) {
  BlockChain chain({1, 1, 1, 1});
  chain.annotate({0, 1, 0, 1}, {0, 0, 0, 0});
  annotateStages(chain.graph, {.mode = VirtualGraphMode::Manual});
  EXPECT_THAT(chain.stages(), ElementsAre(0, 1, 2, 3));
}

TEST(AnnotateStages, ClearsAnnotationsWhereEverythingIsOnOneDevice) {
  for (const VirtualGraphMode mode : {VirtualGraphMode::Off, VirtualGraphMode::Manual}) {
    BlockChain chain({1, 1});
    chain.annotate({3, 3}, {0, 1});
    annotateStages(chain.graph, {.mode = mode});
    EXPECT_THAT(chain.stages(), ElementsAre(-1, -1));
    EXPECT_THAT(chain.devices(), ElementsAre(-1, -1));
  }
}

TEST(AnnotateStages, RefusesAnnotationsOfOnlySomeOps) {
  BlockChain devices({1, 1});
  devices.annotate({0, -1});
  EXPECT_THAT(messageOf([&] { annotateStages(devices.graph, {.mode = VirtualGraphMode::Manual}); }),
              AllOf(HasSubstr("only some ops"), HasSubstr("device")));
  BlockChain stages({1, 1});
  stages.annotate({0, 1}, {0, -1});
  EXPECT_THAT(messageOf([&] { annotateStages(stages.graph, pipelined(VirtualGraphMode::Manual)); }),
              AllOf(HasSubstr("only some ops"), HasSubstr("stage set: 2 have one, 2 have not")));
  BlockChain twice({1, 1});
  twice.annotate({0, 1}, {0, 0});
  EXPECT_THAT(messageOf([&] { annotateStages(twice.graph, pipelined(VirtualGraphMode::Manual)); }),
              HasSubstr("stage 0 is on device 0 and"));
}

TEST(AnnotateStages, RefusesAPipelineOnOneDevice) {
  BlockChain chain({1, 1});
  chain.annotate({1, 1});
  EXPECT_THAT(messageOf([&] { annotateStages(chain.graph, pipelined(VirtualGraphMode::Off)); }),
              HasSubstr("requires more than one device: virtualGraphMode is Off"));
  EXPECT_THAT(messageOf([&] { annotateStages(chain.graph, pipelined(VirtualGraphMode::Manual)); }),
              HasSubstr("all ops are on one device"));
  EXPECT_THAT(messageOf([&] { annotateStages(chain.graph, pipelined(VirtualGraphMode::Auto)); }),
              HasSubstr("requires more than one device"));
}

TEST(AnnotateStages, CutsByCostAtTheSharesOfTheDevices) {
  BlockChain even({1000, 1000, 1000, 1000});
  annotateStages(even.graph, {.mode = VirtualGraphMode::Auto, .devices = 2});
  EXPECT_THAT(even.devices(), ElementsAre(0, 0, 1, 1));
  BlockChain uneven({1000, 1000, 1000, 1000});
  annotateStages(uneven.graph, {.mode = VirtualGraphMode::Auto, .ratios = {0.25, 0.75}});
  EXPECT_THAT(uneven.devices(), ElementsAre(0, 1, 1, 1));
  BlockChain large({1000, 9000, 1000, 1000});
  annotateStages(large.graph, {.mode = VirtualGraphMode::Auto, .devices = 3});
  EXPECT_THAT(large.devices(), ElementsAre(0, 1, 2, 2));
  BlockChain wrong({1, 1});
  EXPECT_THAT(messageOf([&] {
                annotateStages(
                    wrong.graph,
                    {.mode = VirtualGraphMode::Auto, .ratios = {0.5, 0.5}, .devices = 3});
              }),
              HasSubstr("2 ratios for 3 devices"));
}

TEST(AnnotateStages, RefusesMoreDevicesThanTheCutCanFill) {
  BlockChain chain({1000, 1000, 1000, 1000});
  EXPECT_THAT(messageOf([&] {
                annotateStages(chain.graph, {.mode = VirtualGraphMode::Auto, .devices = 60});
              }),
              HasSubstr("devicesPerReplica is 60, but the graph can be cut by cost over at most"));
  EXPECT_THAT(messageOf([&] {
                annotateStages(chain.graph,
                               {.mode = VirtualGraphMode::Auto, .devices = 2'000'000'000});
              }),
              HasSubstr("devicesPerReplica is 2000000000, but VirtualGraphMode::Auto cuts a graph "
                        "over at most 1024 devices"));
  annotateStages(chain.graph, {.mode = VirtualGraphMode::Auto, .devices = 4});
  EXPECT_THAT(chain.devices(), ElementsAre(0, 1, 2, 3));
}

TEST(AnnotateStages, CutsWhereFewBytesGoOnAmongNearlyEvenCuts) {
  // Nine ops, a -+-> b -+-> d, ten ops: the middle is behind b, where a and b go on.
  ir::Graph graph;
  ir::GraphBuilder builder(graph);
  ir::Value x = builder.input("x", {DType::F32, Shape{64}});
  const auto addOps = [&](int count) {
    for (int i = 0; i < count; ++i) {
      x = ops::relu(builder, x);
    }
  };
  addOps(9);
  const ir::Value a = ops::exp(builder, x);
  const ir::Value b = ops::exp(builder, a);
  const ir::Value d = ops::add(builder, a, b);
  x = d;
  addOps(10);
  graph.addOutput("y", x);
  annotateStages(graph, {.mode = VirtualGraphMode::Auto, .devices = 2});
  EXPECT_EQ(graph.op(b.op).place.device, graph.op(d.op).place.device);
  EXPECT_EQ(graph.op(graph.order()[1]).place.device, 0);
  EXPECT_EQ(graph.op(x.op).place.device, 1);
}

/// A chain of products with one weight, by op.
struct SharedChain {
  ir::Graph graph;
  std::vector<ir::OpId> ops;

  explicit SharedChain(int length) {
    ir::GraphBuilder builder(graph);
    graph.addVariable({.name = "w", .type = {DType::F32, Shape{64}}});
    const ir::Value w = builder.variable("w");
    ir::Value x = builder.input("x", {DType::F32, Shape{64}});
    for (int i = 0; i < length; ++i) {
      x = ops::mul(builder, x, w);
      ops.push_back(x.op);
    }
    graph.addOutput("y", x);
  }
};

TEST(AnnotateStages, ReadsOneWeightOnSeveralDevices) {
  SharedChain chain(4);
  annotateStages(chain.graph, {.mode = VirtualGraphMode::Auto, .devices = 2, .training = true});
  EXPECT_EQ(chain.graph.op(chain.ops[1]).place.device, 0);
  EXPECT_EQ(chain.graph.op(chain.ops[2]).place.device, 1);
}

TEST(AnnotateStages, KeepsWhatTheLoopWritesOnOneDevice) {
  SharedChain chain(4);
  ir::GraphBuilder builder(chain.graph);
  builder.assign("w", chain.graph.op(chain.ops[1]).out());
  ir::Value x = chain.graph.outputs()[0].value;
  for (int i = 0; i < 2; ++i) {
    x = ops::exp(builder, x);
  }
  chain.graph.setOutputs({{"y", x}});
  annotateStages(chain.graph, {.mode = VirtualGraphMode::Auto, .devices = 2});
  EXPECT_EQ(chain.graph.op(chain.ops[3]).place.device, 0);
  EXPECT_EQ(chain.graph.op(x.op).place.device, 1);
}

TEST(AnnotateStages, RefusesMoreDevicesThanThereAreOps) {
  SharedChain chain(2);
  EXPECT_THAT(messageOf([&] {
                annotateStages(chain.graph, {.mode = VirtualGraphMode::Auto, .devices = 4});
              }),
              HasSubstr("ask for 2"));
}

TEST(AnnotateStages, CutsGraphsOfVeryManyOps) {
  SharedChain chain(5000);
  annotateStages(chain.graph, {.mode = VirtualGraphMode::Auto, .devices = 4});
  std::vector<int> counts(4);
  for (const ir::OpId id : chain.ops) {
    ++counts.at(static_cast<std::size_t>(chain.graph.op(id).place.device));
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 1250, 130);
  }
}

}  // namespace
}  // namespace sluice::parallel
