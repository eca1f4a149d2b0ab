// Graph, Attrs, GraphBuilder and the initial values of variables.
#include "sluice/ir/graph.h"

#include <cmath>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "tests/support/tensor_types.h"
#include "tests/support/toy_ops.h"

namespace sluice::ir {
namespace {

using testing::f32;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Variable weight(std::string name, TensorType type, Initializer init = {}) {
  return {std::move(name), std::move(type), VariableRole::Weight, true, std::move(init)};
}

template <class E, class F>
void expectThrows(F f, std::string_view word) {
  try {
    f();
    FAIL() << "nothing was thrown, expected: " << word;
  } catch (const E& error) {
    EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(Attrs, AreSortedByNameAndReplaced) {
  Attrs attrs{{"b", 1}, {"a", 2.5}, {"c", "text"}};
  attrs.set({"b", 7});
  ASSERT_EQ(attrs.size(), 3U);
  EXPECT_EQ(attrs.begin()->name, "a");
  EXPECT_EQ(attrs.integer("b"), 7);
  EXPECT_EQ(attrs.real("a"), 2.5);
  EXPECT_EQ(attrs.text("c"), "text");
  EXPECT_EQ(attrs.find("d"), nullptr);
}

TEST(Attrs, GiveEveryKindBack) {
  const auto nested = std::make_shared<const Graph>("inner");
  const Attrs attrs{{"flag", true},
                    {"graph", GraphRef(nested)},
                    {"ints", {1, 2}},
                    {"reals", std::vector<double>{0.5}},
                    {"tensor", HostTensor::scalar(3.0F)},
                    {"texts", std::vector<std::string>{"x"}}};
  EXPECT_TRUE(attrs.flag("flag"));
  EXPECT_EQ(attrs.subgraph("graph").name(), "inner");
  EXPECT_THAT(attrs.integers("ints"), ElementsAre(1, 2));
  EXPECT_THAT(attrs.reals("reals"), ElementsAre(0.5));
  EXPECT_EQ(attrs.tensor("tensor").at(0), 3.0);
  EXPECT_THAT(attrs.texts("texts"), ElementsAre("x"));
}

TEST(Attrs, CheckNameAndKindOfWhatIsRead) {
  const Attrs attrs{{"a", 1}};
  expectThrows<InternalError>([&] { attrs.integer("b"); }, "'b' is missing");
  expectThrows<InternalError>([&] { attrs.real("a"); }, "of kind int");
}

TEST(Attrs, CompareByBits) {
  EXPECT_EQ((Attrs{{"a", NAN}}), (Attrs{{"a", NAN}}));
  EXPECT_FALSE((Attrs{{"a", 0.0}}) == (Attrs{{"a", -0.0}}));
  EXPECT_FALSE((Attrs{{"a", 1}}) == (Attrs{{"a", 1.0}}));
  EXPECT_FALSE((Attrs{{"a", 1}}) == (Attrs{{"b", 1}}));
  EXPECT_EQ((Attrs{{"a", HostTensor::scalar(1.0F)}}), (Attrs{{"a", HostTensor::scalar(1.0F)}}));
}

TEST(Attrs, GetTheDefaultsOfTheSchema) {
  const Attrs attrs = completeAttrs(toy::kAttrs, {});
  EXPECT_EQ(attrs.size(), 7U);
  EXPECT_EQ(attrs.integer("int"), 3);
  EXPECT_EQ(attrs.real("real"), 0.5);
  EXPECT_EQ(attrs.text("text"), "a");
  EXPECT_FALSE(attrs.flag("flag"));
  EXPECT_TRUE(attrs.integers("ints").empty());
  EXPECT_TRUE(attrs.reals("reals").empty());
  EXPECT_TRUE(attrs.texts("texts").empty());
}

TEST(Attrs, AreCheckedAgainstTheSchema) {
  expectThrows<InvalidArgument>([] { completeAttrs(toy::kSum, {{"x", 1}}); }, "it has: none");
  expectThrows<InvalidArgument>(
      [] {
        completeAttrs(toy::kNoise, {{"x", 1}});
      },
      "'x' is unknown; it has: ordinal, shape");
  expectThrows<InvalidArgument>(
      [] {
        completeAttrs(toy::kAttrs, {{"int", 1.0}});
      },
      "must be of kind int, got real");
  expectThrows<InvalidArgument>([] { completeAttrs(toy::kSplit, {}); }, "'sizes' is missing");
  expectThrows<InvalidArgument>(
      [] {
        completeAttrs(toy::kNested, {{"body", GraphRef()}});
      },
      "'body' is an empty subgraph");
}

TEST(OpSet, FindsByName) {
  EXPECT_EQ(toy::ops().find("toy_sum"), &toy::kSum);
  EXPECT_EQ(toy::ops().find("variable"), &kVariable);
  EXPECT_EQ(toy::ops().find("toy_su"), nullptr);
  EXPECT_EQ(toy::ops().find("zzz"), nullptr);
}

TEST(OpDef, CostWithoutAFunctionCountsBytesAndElements) {
  const TensorType type = f32({3, 2});
  const TensorType types[] = {type, type};
  const Cost cost = costOf({toy::kSum, Attrs(), types, {&type, 1}});
  EXPECT_EQ(cost.flops, 6);
  EXPECT_EQ(cost.bytesRead, 48);
  EXPECT_EQ(cost.bytesWritten, 24);
  EXPECT_EQ(costOf({toy::kPickOne, Attrs(), types, {&type, 1}}).flops, 0);
}

TEST(GradContext, RefusesReadsThatAreNotDeclared) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({2}));
  const Attrs attrs;
  const GradContext context(b, {toy::kSum, attrs, {}, {}}, {&x, 1}, {&x, 1}, {&x, 1}, 1);
  expectThrows<InternalError>([&] { context.input(0); }, "reads input 0 without declaring it");
  expectThrows<InternalError>([&] { context.output(0); }, "reads output 0 without declaring it");
  EXPECT_TRUE(context.needs(0));
  EXPECT_FALSE(context.needs(1));
}

TEST(Graph, InfersTypesWhenAnOpIsAppended) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({4}));
  const auto parts = b.addMany(toy::kSplit, {x}, {{"sizes", {1, 3}}});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(graph.type(parts[0]), f32({1}));
  EXPECT_EQ(graph.type(parts[1]), f32({3}));
  EXPECT_THAT(graph.inputTypes(graph.op(parts[0].op)), ElementsAre(f32({4})));
}

TEST(Graph, IsAsItWasWhenAppendingFails) {
  Graph graph;
  GraphBuilder b(graph);
  graph.addVariable(weight("v", f32({5})));
  const Value x = b.input("x", f32({2}));
  const Value y = b.input("y", f32({3}));
  const std::uint64_t before = structuralHash(graph);
  const auto refused = [&](NewOp op, std::string_view word) {
    expectThrows<InvalidArgument>([&] { graph.append(op); }, word);
    expectThrows<InvalidArgument>([&] { graph.insertBefore(y.op, op); }, word);
    EXPECT_EQ(structuralHash(graph), before) << word;
    EXPECT_EQ(graph.numOps(), 2U);
  };
  refused({.def = toy::kSum, .inputs = {x}}, "toy_sum: takes 2 inputs, got 1");
  refused({.def = toy::kSum, .inputs = {x, x, x}}, "takes 2 inputs, got 3");
  refused({.def = toy::kPickOne}, "takes 1 to 2 inputs, got 0");
  refused({.def = toy::kSum, .inputs = {x, y}}, "operands are f32[2] and f32[3]");
  refused({.def = toy::kSum, .inputs = {x, {x.op, 1}}}, "not a value of graph");
  refused({.def = toy::kSum, .inputs = {x, Value()}}, "not a value of graph");
  refused({.def = toy::kSplit, .inputs = {x}}, "'sizes' is missing");
  refused({.def = toy::kSplit, .inputs = {x}, .attrs = {{"sizes", {-1}}}}, "negative extent");
  refused({.def = kAssign, .inputs = {x}, .attrs = {{"var", "u"}}}, "has no variable 'u'");
  refused({.def = kAssign, .inputs = {x}, .attrs = {{"var", "v"}}}, "'v' is f32[5], got f32[2]");
  refused({.def = kAssign, .inputs = {x}, .attrs = {{"var", "v"}, {"mode", "max"}}},
          "expected set, add, sum or mean");
  EXPECT_EQ(b.input("z", f32({})).op.value, 2) << "a refused op used up an id";
}

TEST(Graph, VariadicOpsNameTheLeastNumberOfInputs) {
  static constexpr OpDef kConcat{.name = "join", .minInputs = 2, .maxInputs = kVariadic};
  Graph graph;
  expectThrows<InvalidArgument>([&] { graph.append({.def = kConcat}); },
                                "at least 2 inputs, got 0");
}

TEST(Graph, InsertsBeforeAnOp) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({2}));
  const Value y = b.add(toy::kSum, {x, x});
  const OpId z = graph.insertBefore(y.op, {.def = toy::kSum, .inputs = {x, x}});
  EXPECT_THAT(graph.order(), ElementsAre(x.op, z, y.op));
  expectThrows<InternalError>(
      [&] {
        graph.insertBefore(OpId(std::int32_t{9}), {.def = toy::kSum, .inputs = {x, x}});
      },
      "no op %9");
}

TEST(Graph, ReplacesUsesAndOutputsThroughChains) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({2}));
  const Value y = b.input("y", f32({2}));
  const Value z = b.input("z", f32({2}));
  const Value sum = b.add(toy::kSum, {x, y});
  graph.addOutput("out", x);
  graph.replaceUses({{x, y}, {y, z}});
  EXPECT_THAT(graph.op(sum.op).inputs, ElementsAre(z, z));
  EXPECT_EQ(graph.outputs()[0].value, z);
  const Value other = b.input("w", f32({3}));
  expectThrows<InternalError>([&] { graph.replaceUses({{z, other}}); }, "cannot stand for");
}

TEST(Graph, RemovesOnlyWhatNobodyReads) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({2}));
  const Value y = b.add(toy::kSum, {x, x});
  const Value z = b.add(toy::kSum, {y, y});
  graph.addOutput("out", z);
  expectThrows<InternalError>([&] { graph.remove(std::vector{y.op}); }, "still read by");
  expectThrows<InternalError>([&] { graph.remove(std::vector{y.op, z.op}); }, "still makes output");
  graph.setOutputs({});
  graph.remove(std::vector{y.op, z.op});
  EXPECT_THAT(graph.order(), ElementsAre(x.op));
  EXPECT_FALSE(graph.contains(y.op));
  expectThrows<InternalError>([&] { graph.op(y.op); }, "has no op %1");
}

TEST(Graph, RefusesAnOrderThatIsNoPermutation) {
  Graph graph;
  GraphBuilder b(graph);
  const OpId x = b.input("x", f32({2})).op;
  const OpId y = b.input("y", f32({2})).op;
  graph.reorder({y, x});
  EXPECT_THAT(graph.order(), ElementsAre(y, x));
  EXPECT_THAT(graph.inputs(), ElementsAre(y, x));
  expectThrows<InternalError>([&] { graph.reorder({x}); }, "not a permutation");
  expectThrows<InternalError>([&] { graph.reorder({x, x}); }, "not a permutation");
}

/// What a compile stage does not change is not verified again, so no change may go unseen.
TEST(Graph, CountsEveryChangeAndNothingElse) {
  Graph graph("g");
  std::size_t seen = graph.changes();
  const auto expectChange = [&](std::string_view what) {
    EXPECT_NE(graph.changes(), seen) << what;
    seen = graph.changes();
  };
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({2}));
  expectChange("append");
  const Value y = b.input("y", f32({2}));
  seen = graph.changes();
  graph.setPlacement(x.op, {.stage = 1});
  expectChange("setPlacement");
  graph.setName(x.op, "z");
  expectChange("setName");
  const Value attrs = b.add(toy::kAttrs, {});
  seen = graph.changes();
  graph.setAttr(attrs.op, {"int", 8});
  expectChange("setAttr");
  graph.addOutput("out", x);
  expectChange("addOutput");
  graph.replaceUses({{x, y}});
  expectChange("replaceUses");
  graph.reorder({y.op, x.op, attrs.op});
  expectChange("reorder");
  graph.remove(std::vector<OpId>{x.op});
  expectChange("remove");
  graph.setOutputs({});
  expectChange("setOutputs");
  graph.addVariable(weight("w", f32({2})));
  expectChange("addVariable");
  graph.replaceVariable(weight("w", f32({3})));
  expectChange("replaceVariable");
  EXPECT_EQ(graph.blockIndex("b"), 0);
  expectChange("blockIndex of a new block");
  graph = Graph("other");
  expectChange("assignment");
  // Nothing to do is no change.
  EXPECT_EQ(graph.blockIndex("b"), 0);
  seen = graph.changes();
  EXPECT_EQ(graph.blockIndex("b"), 0);
  graph.replaceUses({});
  graph.remove({});
  graph.reorder({});
  EXPECT_EQ(graph.changes(), seen);
}

TEST(Graph, OutputsHaveUniqueNamesAndRealValues) {
  Graph graph("net");
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({2}));
  graph.addOutput("out", x);
  expectThrows<InvalidArgument>([&] { graph.addOutput("out", x); },
                                "'net' already has an output named 'out'");
  expectThrows<InternalError>([&] { graph.addOutput("other", {x.op, 1}); }, "has no output 1");
}

/// By a search among all of them, so many would take minutes.
TEST(Graph, FindsEachOfManyOutputsAndBlocksByItsName) {
  constexpr int kMany = 300'000;
  Graph graph("net");
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({2}));
  for (int i = 0; i < kMany; ++i) {
    graph.addOutput("out" + std::to_string(i), x);
    ASSERT_EQ(graph.blockIndex("block" + std::to_string(i)), i);
  }
  EXPECT_EQ(graph.blockIndex("block8191"), 8191);
  expectThrows<InvalidArgument>([&] { graph.addOutput("out17", x); },
                                "already has an output named 'out17'");
  graph.setOutputs({{"out17", x}});
  EXPECT_EQ(graph.outputs().size(), 1U);
}

TEST(Graph, VariablesAreAddedOnce) {
  Graph graph;
  graph.addVariable(weight("v", f32({2})));
  graph.addVariable(weight("v", f32({2})));
  EXPECT_EQ(graph.variables().size(), 1U);
  EXPECT_EQ(graph.findVariable("u"), nullptr);
  expectThrows<InvalidArgument>([&] { graph.addVariable(weight("v", f32({3}))); },
                                "already exists as a different one of type f32[2]");
}

TEST(Graph, SetAttrChecksTheSchema) {
  Graph graph;
  GraphBuilder b(graph);
  const Value a = b.add(toy::kAttrs, {});
  graph.setAttr(a.op, {"int", 8});
  EXPECT_EQ(graph.op(a.op).attrs.integer("int"), 8);
  expectThrows<InvalidArgument>([&] { graph.setAttr(a.op, {"int", "x"}); }, "got text");
  EXPECT_EQ(graph.op(a.op).attrs.integer("int"), 8);
}

TEST(Graph, ListsUsersInOrder) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({2}));
  const Value y = b.add(toy::kSum, {x, x});
  const Value z = b.add(toy::kSum, {y, x});
  graph.addOutput("out", z);
  const Users users = graph.users();
  ASSERT_EQ(users.of(x).size(), 3U);
  EXPECT_EQ(users.of(x)[1].op, y.op);
  EXPECT_EQ(users.of(x)[1].input, 1U);
  EXPECT_EQ(users.of(x)[2].op, z.op);
  EXPECT_TRUE(users.of(z).empty());
  EXPECT_TRUE(users.isOutput(z));
  EXPECT_FALSE(users.isOutput(y));
}

TEST(Graph, CopiesAreIndependent) {
  Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({2}));
  Graph copy = graph;
  GraphBuilder(copy).add(toy::kSum, {x, x});
  EXPECT_EQ(graph.numOps(), 1U);
  EXPECT_EQ(copy.numOps(), 2U);
}

TEST(GraphBuilder, PutsItsAnnotationsOnOps) {
  Graph graph;
  GraphBuilder b(graph);
  Value inner;
  const Value x = b.input("x", f32({2}));
  {
    const AnnotationScope scope(b);
    b.place = {.pass = Pass::Backward, .block = graph.blockIndex("B"), .stage = 1};
    b.scope = "layer/";
    inner = b.add(toy::kSum, {x, x});
  }
  const Value outer = b.add(toy::kSum, {x, x});
  EXPECT_EQ(graph.op(inner.op).name, "layer/toy_sum");
  EXPECT_EQ(graph.op(inner.op).place, (Placement{.pass = Pass::Backward, .block = 0, .stage = 1}));
  EXPECT_EQ(graph.op(outer.op).name, "toy_sum");
  EXPECT_EQ(graph.op(outer.op).place, Placement{});
}

TEST(GraphBuilder, ChecksNames) {
  Graph graph("net");
  GraphBuilder b(graph);
  b.input("x", f32({2}));
  expectThrows<InvalidArgument>([&] { b.input("x", f32({2})); }, "already has an input named 'x'");
  expectThrows<InvalidArgument>([&] { b.variable("v"); }, "'net' has no variable 'v'");
}

TEST(GraphBuilder, CountsRandomOrdinals) {
  Graph graph;
  GraphBuilder b(graph);
  EXPECT_EQ(b.nextRandomOrdinal(), 0);
  b.add(toy::kNoise, {}, {{"ordinal", 4}, {"shape", {1}}});
  b.add(toy::kNoise, {}, {{"ordinal", 2}, {"shape", {1}}});
  EXPECT_EQ(b.nextRandomOrdinal(), 5);
}

TEST(GraphBuilder, MakesScalars) {
  Graph graph;
  GraphBuilder b(graph);
  const Value v = b.scalar(DType::I32, 7);
  EXPECT_EQ(b.type(v), (TensorType{DType::I32, Shape{}}));
  EXPECT_EQ(graph.op(v.op).attrs.tensor("value").at(0), 7);
}

TEST(Variable, StartsWithItsConstantOrTensor) {
  EXPECT_TRUE(initialValue(weight("v", f32({2}), Initializer::constant(3)), 1)
                  .sameBits(HostTensor::of<float>({2}, {3, 3})));
  const HostTensor tensor = HostTensor::of<float>({2}, {4, 5});
  const HostTensor value = initialValue(weight("v", f32({2}), Initializer::of(tensor)), 1);
  EXPECT_TRUE(value.sameBits(tensor));
  EXPECT_NE(value.bytes(), tensor.bytes()) << "the initial value must be a copy";
  expectThrows<InvalidArgument>(
      [&] { initialValue(weight("v", f32({3}), Initializer::of(tensor)), 1); },
      "'v' is f32[3], its initial value f32[2]");
}

TEST(Variable, RandomStartDependsOnSeedAndNameAlone) {
  const auto of = [](std::string name, std::uint64_t seed) {
    return initialValue(weight(std::move(name), f32({64}), Initializer::uniform(-2, 3)), seed);
  };
  EXPECT_TRUE(of("a", 1).sameBits(of("a", 1)));
  EXPECT_FALSE(of("a", 1).sameBits(of("a", 2)));
  EXPECT_FALSE(of("a", 1).sameBits(of("b", 1)));
}

TEST(Variable, RandomStartHasTheMomentsItNames) {
  // 10000 samples: the mean's standard error is 0.01 of the deviation, so 0.05 is five of them.
  constexpr std::int64_t kCount = 10000;
  const auto moments = [](const Initializer& init, double& low, double& high) {
    const HostTensor value = initialValue(weight("v", {DType::F64, Shape{kCount}}, init), 7);
    double sum = 0;
    double squares = 0;
    for (const double x : value.toDoubles()) {
      sum += x;
      squares += x * x;
      low = std::min(low, x);
      high = std::max(high, x);
    }
    const double mean = sum / kCount;
    return std::pair(mean, std::sqrt(squares / kCount - mean * mean));
  };
  double low = 0;
  double high = 0;
  const auto [uniformMean, uniformDeviation] = moments(Initializer::uniform(-2, 4), low, high);
  EXPECT_NEAR(uniformMean, 1.0, 0.05 * std::sqrt(3.0));
  EXPECT_NEAR(uniformDeviation, std::sqrt(3.0), 0.05 * std::sqrt(3.0));
  EXPECT_GE(low, -2.0);
  EXPECT_LT(high, 4.0);
  const auto [normalMean, normalDeviation] = moments(Initializer::normal(5, 2), low, high);
  EXPECT_NEAR(normalMean, 5.0, 0.1);
  EXPECT_NEAR(normalDeviation, 2.0, 0.1);
}

}  // namespace
}  // namespace sluice::ir
