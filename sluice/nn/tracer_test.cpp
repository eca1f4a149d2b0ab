#include "sluice/nn/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/nn/functional.h"
#include "sluice/nn/modules.h"
#include "sluice/ops/interpreter.h"
#include "tests/support/layer_run.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TensorType kTracedPair{DType::F32, Shape{2}};

/// The value of an expression of x = (2, -3).
template <class F>
std::vector<double> valueOf(F f) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  graph.addOutput("y", f(tracer.input("x", kTracedPair)).value());
  ops::TensorMap none;
  return ops::evaluate(graph, {{"x", HostTensor::of<float>(Shape{2}, {2, -3})}}, none)
      .at("y")
      .toDoubles();
}

TEST(Tensor, OperatorsComputeWithTensorsAndNumbers) {
  EXPECT_THAT(valueOf([](Tensor x) { return x + x; }), ElementsAre(4, -6));
  EXPECT_THAT(valueOf([](Tensor x) { return x - x * x; }), ElementsAre(-2, -12));
  EXPECT_THAT(valueOf([](Tensor x) { return (x + 1.0) / x; }),
              ElementsAre(1.5, ::testing::DoubleNear(2.0 / 3, 1e-7)));
  EXPECT_THAT(valueOf([](Tensor x) { return x - 1.0; }), ElementsAre(1, -4));
  EXPECT_THAT(valueOf([](Tensor x) { return 1.0 - x; }), ElementsAre(-1, 4));
  EXPECT_THAT(valueOf([](Tensor x) { return 2.0 * x + 0.5; }), ElementsAre(4.5, -5.5));
  EXPECT_THAT(valueOf([](Tensor x) { return 6.0 / x; }), ElementsAre(3, -2));
  EXPECT_THAT(valueOf([](Tensor x) { return x / 4.0; }), ElementsAre(0.5, -0.75));
  EXPECT_THAT(valueOf([](Tensor x) { return 1.0 + -x; }), ElementsAre(-1, 4));
}

TEST(Tensor, AnEmptyOneCannotBeUsed) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", kTracedPair);
  EXPECT_THAT(messageOf([&] { x + Tensor(); }), HasSubstr("empty"));
  EXPECT_THAT(messageOf([&] { relu(Tensor()); }), HasSubstr("empty"));
  EXPECT_THAT(messageOf([&] { (void)Tensor().shape(); }), HasSubstr("empty"));
}

TEST(Tensor, OneOfAnotherTraceCannotBeUsed) {
  ir::Graph first;
  ir::Graph second;
  Tensor old;
  {
    Tracer tracer(first, TraceMode::Inference);
    old = tracer.input("x", kTracedPair);
  }
  EXPECT_THAT(messageOf([&] { relu(old); }), HasSubstr("only inside a trace"));
  Tracer tracer(second, TraceMode::Inference);
  const Tensor x = tracer.input("x", kTracedPair);
  EXPECT_THAT(messageOf([&] { x + old; }), HasSubstr("another trace"));
  EXPECT_THAT(messageOf([&] { old* x; }), HasSubstr("another trace"));
  EXPECT_THAT(messageOf([&] { concat({x, old}); }), HasSubstr("another trace"));
  EXPECT_EQ(second.numOps(), 1U);
}

TEST(Tracer, IsTheOnlyOneOfItsThread) {
  EXPECT_FALSE(Tracer::active());
  EXPECT_THAT(messageOf([] { Tracer::current(); }), HasSubstr("only inside a trace"));
  ir::Graph graph;
  {
    Tracer tracer(graph, TraceMode::Training);
    EXPECT_EQ(&Tracer::current(), &tracer);
    EXPECT_THAT(messageOf([&] { Tracer inner(graph, TraceMode::Training); }), HasSubstr("nested"));
    EXPECT_EQ(&Tracer::current(), &tracer);
  }
  EXPECT_FALSE(Tracer::active());
}

TEST(Tracer, InputsNeedDifferentNames) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  EXPECT_EQ(tracer.input("x", kTracedPair).type(), kTracedPair);
  EXPECT_THAT(messageOf([&] { tracer.input("x", kTracedPair); }), HasSubstr("'x'"));
  EXPECT_THAT(messageOf([&] { tracer.input("", kTracedPair); }), HasSubstr("name"));
}

TEST(NameScope, NeedsAName) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  EXPECT_THAT(messageOf([] { NameScope s(""); }), HasSubstr("name"));
}

struct Inner : Layer {
  using Layer::Layer;
  Linear fc{*this, "fc", 2, 2};
  Tensor forward(const Tensor& x) override {
    const NameScope scope("act");
    return relu(fc(x));
  }
};

struct Outer : Module {
  ModuleList<Inner> layers{*this, "layers"};
  Outer() {
    layers.emplace();
    layers.emplace();
  }
};

TEST(NameScope, OpsAreNamedForTheModulesThatMakeThem) {
  Outer net;
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F32, Shape{1, 2}});
  const NameScope user("tower");
  const Tensor y = net.layers[1](x);
  EXPECT_THAT(graph.op(y.value().op).name, HasSubstr("tower/layers/1/act/relu"));
  bool found = false;
  for (const ir::OpId id : graph.order()) {
    found = found || graph.op(id).name.starts_with("tower/layers/1/act/fc/matmul");
  }
  EXPECT_TRUE(found);
}

TEST(Tracer, AParameterIsReadOnceHoweverOftenItIsUsed) {
  Outer net;
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  Tensor x = tracer.input("x", {DType::F32, Shape{1, 2}});
  for (int i = 0; i < 3; ++i) {
    x = net.layers[0](x);
  }
  std::size_t reads = 0;
  for (const ir::OpId id : graph.order()) {
    reads += graph.op(id).is(ir::kVariable) ? 1U : 0U;
  }
  EXPECT_EQ(reads, 2U);
  EXPECT_EQ(graph.variables().size(), 2U);
  EXPECT_EQ(graph.variables()[0].name, "layers.0.fc.weight");
}

TEST(Tracer, TwoParametersOfOneNameAreRefused) {
  Outer a;
  Outer b;
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F32, Shape{1, 2}});
  a.layers[0](x);
  EXPECT_THAT(messageOf([&] { b.layers[0](x); }), HasSubstr("layers.0.fc.weight"));
}

TEST(Parameter, CanBeUsedOnlyInsideATrace) {
  Outer net;
  EXPECT_THAT(messageOf([&] { net.layers[0].fc.weight.use(); }), HasSubstr("only inside a trace"));
}

}  // namespace
}  // namespace sluice::nn
