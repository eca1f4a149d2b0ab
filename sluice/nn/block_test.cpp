#include "sluice/nn/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/nn/functional.h"
#include "sluice/nn/modules.h"
#include "tests/support/layer_run.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TensorType kPair{DType::F32, Shape{2}};

TEST(Block, AnnotatesTheOpsMadeInItAndRestoresWhatWasBefore) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", kPair);
  Tensor outer;
  Tensor inner;
  Tensor again;
  {
    const Block b1("B1", 3);
    outer = relu(x);
    {
      const Block b2("B2");
      inner = relu(x);
    }
    again = relu(x);
  }
  const Tensor after = relu(x);
  const auto place = [&](const Tensor& t) { return graph.op(t.value().op).place; };
  EXPECT_THAT(graph.blocks(), ElementsAre("B1", "B2"));
  EXPECT_EQ(place(outer).block, 0);
  EXPECT_EQ(place(outer).device, 3);
  EXPECT_EQ(place(inner).block, 1);
  EXPECT_EQ(place(inner).device, -1);
  EXPECT_EQ(place(again), place(outer));
  EXPECT_EQ(place(after).block, -1);
}

TEST(Block, RefusesEmptyNamesNegativeDevicesAndUseOutsideATrace) {
  EXPECT_THAT(messageOf([] { Block b("B1"); }), HasSubstr("only inside a trace"));
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  EXPECT_THAT(messageOf([] { Block b(""); }), HasSubstr("name"));
  EXPECT_THAT(messageOf([] { Block b("B1", -2); }), HasSubstr("-2"));
}

/// A trace in progress with an input x; says which block an op is in.
struct Trace {
  ir::Graph graph;
  Tracer tracer{graph, TraceMode::Inference};
  Tensor x = tracer.input("x", {DType::F32, Shape{1, 2}});

  /// "B1@0", "B1" without a device, "" outside of blocks.
  std::string where(const Tensor& t) const {
    const ir::Placement& place = graph.op(t.value().op).place;
    if (place.block < 0) {
      return {};
    }
    const std::string& id = graph.blocks()[static_cast<std::size_t>(place.block)];
    return place.device < 0 ? id : id + "@" + std::to_string(place.device);
  }
};

struct Chain : Module {
  Linear a{*this, "a", 2, 2};
  Linear b{*this, "b", 2, 2};
  Linear c{*this, "c", 2, 2};
  std::vector<Tensor> forward(const Tensor& x) {
    std::vector<Tensor> results = {a(x)};
    results.push_back(relu(results.back()));
    results.push_back(b(results.back()));
    results.push_back(relu(results.back()));
    results.push_back(c(results.back()));
    return results;
  }
};

std::vector<std::string> blocksOf(Chain& net) {
  Trace trace;
  std::vector<std::string> blocks;
  const std::vector<Tensor> results = net.forward(trace.x);  // a later mark places earlier ops
  for (const Tensor& t : results) {
    blocks.push_back(trace.where(t));
  }
  return blocks;
}

TEST(Block, HasOneDeviceHoweverOftenItIsUsed) {
  Trace trace;
  Tensor first;
  Tensor second;
  {
    const Block block("B1");
    first = relu(trace.x);
  }
  {
    const Block block("B1", 2);
    second = relu(first);
  }
  const Block block("B1");
  EXPECT_EQ(trace.where(first), "B1@2");
  EXPECT_EQ(trace.where(second), "B1@2");
  EXPECT_EQ(trace.where(relu(second)), "B1@2");
  EXPECT_THAT(messageOf([] { Block again("B1", 1); }),
              AllOf(HasSubstr("'B1'"), HasSubstr("device 2"), HasSubstr("device 1")));
}

TEST(Block, IdsMayBeMadeAtRunTime) {
  Trace trace;
  Tensor x = trace.x;
  for (int i = 0; i < 3; ++i) {
    const Block block("layer" + std::to_string(i), i);
    x = relu(x);
  }
  EXPECT_THAT(trace.graph.blocks(), ElementsAre("layer0", "layer1", "layer2"));
  EXPECT_EQ(trace.where(x), "layer2@2");
}

TEST(Block, NumbersBlocksWithoutIdsInEachForward) {
  for (int forward = 0; forward < 2; ++forward) {
    Trace trace;
    Block::useAutoId();
    {
      const Block block;
      EXPECT_EQ(trace.where(relu(trace.x)), "0");
      const Block inner(3);
      EXPECT_EQ(trace.where(relu(trace.x)), "1@3");
    }
    {
      const Block named("head");
      EXPECT_EQ(trace.where(relu(trace.x)), "head");
    }
    Block::useAutoId();  // once more changes nothing
    const Block block(0);
    EXPECT_EQ(trace.where(relu(trace.x)), "2@0");
  }
}

TEST(Block, NeedsAnIdUnlessTheyAreNumbered) {
  EXPECT_THAT(messageOf([] { Block::useAutoId(); }), HasSubstr("only inside a trace"));
  const Trace trace;
  EXPECT_THAT(messageOf([] { Block block; }), HasSubstr("useAutoId"));
  EXPECT_THAT(messageOf([] { Block block(1); }), HasSubstr("useAutoId"));
}

TEST(BlockFunction, RunsACallableInABlock) {
  Trace trace;
  BlockFunction twice("B1", 4, [](const Tensor& x) { return x + x; });
  BlockFunction sum("B2", [](const Tensor& x, const Tensor& y) { return x + y; });
  const Tensor doubled = twice(trace.x);
  EXPECT_EQ(trace.where(doubled), "B1@4");
  EXPECT_EQ(trace.where(sum(doubled, trace.x)), "B2");
  EXPECT_EQ(trace.where(relu(doubled)), "");
}

TEST(BlockFunction, GivesTheValueOfItsCallable) {
  BlockFunction twice("B1", 0, [](const Tensor& x) { return x + x; });
  ops::TensorMap none;
  EXPECT_THAT(evaluated(
                  {HostTensor::of<float>(Shape{2}, {2, -3})},
                  [&](const std::vector<Tensor>& x) { return twice(x[0]); },
                  none)
                  .toDoubles(),
              ElementsAre(4, -6));
}

TEST(BeginBlock, TakesEverythingFromItsLayerOn) {
  Chain net;
  BeginBlock(net.a, "A", 0);
  BeginBlock(net.c, "C", 1);
  EXPECT_THAT(blocksOf(net), ElementsAre("A@0", "A@0", "A@0", "A@0", "C@1"));
}

TEST(BeginBlock, LeavesWhatComesBeforeToAnImplicitBlock) {
  Chain net;
  BeginBlock(net.b, "B", 2);
  EXPECT_THAT(blocksOf(net), ElementsAre("implicit@1", "implicit@1", "B@2", "B@2", "B@2"));
  removeBlocks(net);
  BeginBlock(net.b, "B");
  EXPECT_THAT(blocksOf(net), ElementsAre("implicit", "implicit", "B", "B", "B"));
  removeBlocks(net);
  BeginBlock(net.b, "B", 0);
  EXPECT_THAT(blocksOf(net), ElementsAre("implicit@0", "implicit@0", "B@0", "B@0", "B@0"));
}

TEST(BeginBlock, ChangesNeitherNamesNorValuesOfParameters) {
  Chain plain;
  Chain marked;
  BeginBlock(marked.b, "B", 1);
  for (const Parameter* parameter : plain.parameters()) {
    const Parameter* same = marked.find(parameter->fullName());
    ASSERT_NE(same, nullptr);
    EXPECT_EQ(same->value().toDoubles(), parameter->value().toDoubles());
  }
  const HostTensor x = waves({DType::F32, Shape{1, 2}}, 0.3);
  const auto last = [&](Chain& net) {
    return evaluated(
               {x}, [&](const std::vector<Tensor>& in) { return net.forward(in[0]).back(); }, net)
        .toDoubles();
  };
  EXPECT_EQ(last(marked), last(plain));
}

TEST(BeginBlock, OfAnInnerLayerGoesOnAfterTheLayersAroundIt) {
  struct Net : Module {
    Sequential body{*this, "body"};
    Net() { body.add<Linear>(2, 2).add<Linear>(2, 2); }
  };
  Net net;
  BeginBlock(net.body[1], "tail", 1);
  Trace trace;
  Tensor y;
  {
    const NameScope named("tower");
    y = net.body(trace.x);
  }
  EXPECT_EQ(trace.where(relu(y)), "tail@1");
}

TEST(BeginBlock, AppliedAgainBeginsTheSameBlockAgain) {
  Chain net;
  BeginBlock(net.a);
  BeginBlock(net.b, 3);
  Trace trace;
  Block::useAutoId();
  EXPECT_EQ(trace.where(net.a(trace.x)), "0");
  EXPECT_EQ(trace.where(net.b(trace.x)), "1@3");
  EXPECT_EQ(trace.where(net.a(trace.x)), "0");
}

TEST(BeginBlock, CanBeMixedWithTheOtherForms) {
  Chain net;
  BeginBlock(net.a, "A");
  BeginBlock(net.c, "C");
  BlockFunction middle("M", [&](const Tensor& x) { return net.b(x); });
  Trace trace;
  Tensor x = net.a(trace.x);
  x = middle(x);
  EXPECT_EQ(trace.where(x), "M");
  x = relu(x);
  EXPECT_EQ(trace.where(x), "A");
  {
    const Block outer("outer");
    {
      const Block inner("inner");
      x = net.c(x);  // begins C inside two scopes
      EXPECT_EQ(trace.where(x), "C");
    }
    EXPECT_EQ(trace.where(relu(x)), "outer");
  }
  EXPECT_EQ(trace.where(relu(x)), "C");
}

TEST(BeginBlock, RefusesASecondMarkUntilTheFirstIsRemoved) {
  Chain net;
  BeginBlock(net.b, "B", 0);
  EXPECT_THAT(messageOf([&] { BeginBlock(net.b, "D", 1); }),
              AllOf(HasSubstr("'b' already begins block 'B'"), HasSubstr("removeBlocks")));
  removeBlocks(net);
  EXPECT_THAT(blocksOf(net), ElementsAre("", "", "", "", ""));
  BeginBlock(net.b, "D", 1);
  EXPECT_THAT(blocksOf(net), ElementsAre("implicit@0", "implicit@0", "D@1", "D@1", "D@1"));
}

TEST(BeginBlock, RefusesEmptyIdsAndNegativeDevices) {
  Chain net;
  EXPECT_THAT(messageOf([&] { BeginBlock(net.b, ""); }), HasSubstr("name"));
  EXPECT_THAT(messageOf([&] { BeginBlock(net.b, "B", -1); }), HasSubstr("got -1"));
  EXPECT_EQ(net.b.blockMark(), nullptr);
}

TEST(RequireBlocks, WantsEveryOpInOneIfThereAreAny) {
  Chain net;
  Trace trace;
  Tensor y = net.a(trace.x);
  requireBlocks(trace.graph);  // no blocks at all
  {
    const Block block("B1");
    y = net.b(y) + 1.0;
  }
  EXPECT_THAT(messageOf([&] { requireBlocks(trace.graph); }),
              AllOf(HasSubstr("no active block"), HasSubstr("a/")));
}

TEST(JoinBlocks, GivesLooseOpsTheBlockBeforeThem) {
  Trace trace;
  const auto blockOf = [&](const Tensor& x) {
    const std::int32_t block = trace.graph.op(x.value().op).place.block;
    return block < 0 ? "none" : trace.graph.blocks()[static_cast<std::size_t>(block)];
  };
  const Tensor first = relu(trace.x);
  EXPECT_THAT(joinBlocks(trace.graph), ElementsAre());  // no blocks at all
  EXPECT_EQ(blockOf(first), "none");
  Tensor a;
  {
    const Block block("A", 2);
    a = relu(first);
  }
  const Tensor between = relu(a);
  Tensor b;
  {
    const Block block("B");
    b = relu(between);
  }
  const Tensor last = relu(b);
  EXPECT_EQ(joinBlocks(trace.graph).size(), 3U);
  EXPECT_EQ(blockOf(first), "A");  // nothing is before it
  EXPECT_EQ(trace.graph.op(first.value().op).place.device, 2);
  EXPECT_EQ(blockOf(between), "A");
  EXPECT_EQ(blockOf(last), "B");
  requireBlocks(trace.graph);
}

TEST(JoinBlocks, GivesAllOpsTheFirstBlockWhereNoBlockHasOps) {
  Trace trace;
  { const Block empty("A"); }
  { const Block empty("B"); }
  const Tensor y = relu(trace.x);
  EXPECT_THAT(messageOf([&] { requireBlocks(trace.graph); }),
              AllOf(HasSubstr("'relu'"), HasSubstr("block 'A' has no op")));
  EXPECT_THAT(joinBlocks(trace.graph), ElementsAre("relu"));
  EXPECT_EQ(trace.where(y), "A");
  requireBlocks(trace.graph);
}

TEST(RequireBlocks, IgnoresInputsConstantsAndReadsOfVariables) {
  Chain net;
  Trace trace;
  const Tensor weight = net.b.weight;
  const Tensor one{trace.tracer.builder(), trace.tracer.builder().scalar(DType::F32, 1)};
  const Block block("B1");
  const Tensor y = net.b(trace.x) + one;
  EXPECT_EQ(trace.where(weight), "");
  EXPECT_EQ(trace.where(y), "B1");
  EXPECT_NO_THROW(requireBlocks(trace.graph));
}

TEST(RequireLiveBlocks, NamesTheFirstOpThatReachesNoOutput) {
  Chain net;
  Trace trace;
  net.a(trace.x);
  EXPECT_NO_THROW(requireLiveBlocks(trace.graph));  // no blocks at all
  Tensor y;
  {
    const Block block("B1");
    y = net.b(trace.x);
    net.c(y);
  }
  trace.graph.addOutput("y", y.value());
  EXPECT_THAT(messageOf([&] { requireLiveBlocks(trace.graph); }),
              AllOf(HasSubstr("block 'B1'"), HasSubstr("'c/")));
}

TEST(RequireBegunBlocks, RefusesAMarkedLayerThatIsNotApplied) {
  Chain net;
  BeginBlock(net.a, "A");
  BeginBlock(net.c, "C");
  const Trace trace;
  const Tensor y = net.a(trace.x);
  EXPECT_THAT(messageOf([&] { requireBegunBlocks(net); }),
              AllOf(HasSubstr("'c'"), HasSubstr("'C'"), HasSubstr("never applies")));
  net.c(y);
  EXPECT_NO_THROW(requireBegunBlocks(net));
}

}  // namespace
}  // namespace sluice::nn
