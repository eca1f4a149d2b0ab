// One broken graph per invariant of verify().
#include "sluice/ir/verify.h"

#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "tests/support/tensor_types.h"
#include "tests/support/toy_ops.h"

namespace sluice::ir {

/// What no public function of Graph does.
struct GraphTestAccess {
  static Op& op(Graph& graph, OpId id) { return *graph.ops_[id.index()]; }
  static std::vector<Output>& outputs(Graph& graph) { return graph.outputs_; }
  static std::vector<Variable>& variables(Graph& graph) { return graph.variables_; }
  /// Names that a search for this one compares with, at most.
  static std::size_t namesCompared(const Graph& graph, std::string_view name) {
    return graph.variableIndex_.bucket_size(graph.variableIndex_.bucket(std::string(name)));
  }
};

namespace {

using testing::f32;

using ::testing::HasSubstr;

/// A valid graph with one op of each kind that the tests break.
struct Sample {
  Graph graph{"sample"};
  OpId input, sum, split, read, assign, noise;

  Sample() {
    graph.addVariable({"v", f32({2}), VariableRole::Weight, true, {}});
    graph.addVariable({"w", f32({3}), VariableRole::Weight, true, {}});
    GraphBuilder b(graph);
    const Value x = b.input("x", f32({2}));
    const Value y = b.add(toy::kSum, {x, x});
    const Value part = b.add(toy::kSplit, {y}, {{"sizes", {1, 1}}});
    const Value v = b.variable("v");
    b.assign("v", v);
    const Value n = b.add(toy::kNoise, {}, {{"ordinal", 0}, {"shape", {2}}});
    graph.addOutput("y", y);
    input = x.op;
    sum = y.op;
    split = part.op;
    read = v.op;
    assign = OpId(read.value + 1);
    noise = n.op;
  }

  Op& op(OpId id) { return GraphTestAccess::op(graph, id); }
};

void expectBroken(Sample& sample, std::string_view rule) {
  try {
    verify(sample.graph);
    FAIL() << "verify accepted a graph that breaks: " << rule;
  } catch (const InternalError& error) {
    EXPECT_THAT(error.message(), HasSubstr(rule));
    EXPECT_THAT(error.message(), HasSubstr("graph 'sample'"));
  }
}

TEST(Graph, FindingAllVariablesComparesAFewNamesForEach) {
  std::vector<std::size_t> compared;
  for (const int count : {1000, 2000}) {
    Graph graph;
    for (int i = 0; i < count; ++i) {
      graph.addVariable(
          {fmt::format("layer{}.weight", i), f32({1 + i}), VariableRole::Weight, true, {}});
    }
    compared.push_back(0);
    const Graph copy = graph;
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("layer{}.weight", i);
      EXPECT_EQ(copy.findVariable(name)->type, f32({1 + i}));
      compared.back() += GraphTestAccess::namesCompared(copy, name);
    }
    EXPECT_EQ(copy.findVariable("layer"), nullptr);
  }
  EXPECT_LE(compared[1], 23 * compared[0] / 10);
  EXPECT_LE(compared[0], 4 * 1000U);
}

TEST(Verify, AcceptsValidGraphs) {
  EXPECT_NO_THROW(verify(Sample().graph));
  EXPECT_NO_THROW(verify(Graph()));
}

TEST(Verify, RefusesAReaderBeforeItsProducer) {
  Sample s;
  std::vector<OpId> order(s.graph.order().begin(), s.graph.order().end());
  std::swap(order[1], order[2]);
  s.graph.reorder(order);
  expectBroken(s, "before it is made");
}

TEST(Verify, RefusesAnOperandThatDoesNotExist) {
  Sample s;
  s.op(s.sum).inputs[0].op = OpId(std::int32_t{99});
  expectBroken(s, "an op that does not exist");
}

TEST(Verify, RefusesAnOutputIndexThatDoesNotExist) {
  Sample s;
  s.op(s.sum).inputs[0].out = 1;
  expectBroken(s, "it reads output 1 of input %0, which has 1");
}

TEST(Verify, RefusesAWrongNumberOfOperands) {
  Sample s;
  s.op(s.sum).inputs.pop_back();
  expectBroken(s, "1 operands");
}

TEST(Verify, RefusesTypesThatInferenceDoesNotGive) {
  Sample s;
  s.graph.setAttr(s.split, {"sizes", {1, 3}});
  expectBroken(s, "result 1 has type f32[1], inference gives f32[3]");
}

TEST(Verify, RefusesAnotherNumberOfResultsThanInferenceGives) {
  Sample s;
  s.graph.setAttr(s.split, {"sizes", {1, 1, 1}});
  expectBroken(s, "it has 2 results, inference gives 3");
}

TEST(Verify, RefusesAnotherNumberOfResultsThanTheDefinitionHas) {
  Sample s;
  s.op(s.noise).outputs.push_back(f32({}));
  expectBroken(s, "it has 2 results, expected 1");
}

TEST(Verify, RefusesOperandsThatInferenceRefuses) {
  Sample s;
  s.graph.setAttr(s.assign, {"mode", "never"});
  expectBroken(s, "do not fit: assign: mode is 'never'");
}

TEST(Verify, RefusesMissingAndIllTypedAttributes) {
  Sample missing;
  missing.op(missing.assign).attrs = {{"var", "v"}};
  expectBroken(missing, "not filled in");
  Sample required;
  required.op(required.split).attrs = {};
  expectBroken(required, "attribute 'sizes' is missing");
  Sample kind;
  kind.op(kind.split).attrs = {{"sizes", 1}};
  expectBroken(kind, "must be of kind ints, got int");
}

TEST(Verify, RefusesUnknownVariables) {
  Sample s;
  s.graph.setAttr(s.read, {"var", "u"});
  expectBroken(s, "there is no variable 'u'");
}

TEST(Verify, RefusesReadsAndWritesOfAnotherType) {
  Sample read;
  read.graph.setAttr(read.read, {"var", "w"});
  expectBroken(read, "variable 'w' is f32[3], not f32[2]");
  Sample write;
  write.graph.setAttr(write.assign, {"var", "w"});
  expectBroken(write, "variable 'w' is f32[3], not f32[2]");
}

TEST(Verify, RefusesOtherOpsThatNameAVariable) {
  static constexpr AttrSpec kSpecs[] = {{.name = "var", .kind = AttrKind::Text}};
  static constexpr OpDef kThief{.name = "thief", .attrs = kSpecs, .infer = [](const OpView& op) {
                                  return std::vector<TensorType>{op.inputs[0]};
                                }};
  Sample s;
  GraphBuilder(s.graph).add(kThief, {{s.input, 0}}, {{"var", "v"}});
  expectBroken(s, "only variable and assign");
}

TEST(Verify, RefusesRepeatedNames) {
  Sample variables;
  GraphTestAccess::variables(variables.graph)[1].name = "v";
  expectBroken(variables, "variable 'v' exists twice");
  Sample outputs;
  GraphTestAccess::outputs(outputs.graph).push_back(outputs.graph.outputs()[0]);
  expectBroken(outputs, "output 'y' exists twice");
  Sample inputs;
  inputs.graph.append({.def = kInput, .name = "x", .types = {f32({})}});
  expectBroken(inputs, "also that of another input");
}

TEST(Verify, RefusesOutputsThatDoNotExist) {
  Sample op;
  GraphTestAccess::outputs(op.graph)[0].value.op = OpId(std::int32_t{99});
  expectBroken(op, "output 'y' is a value that does not exist");
  Sample index;
  GraphTestAccess::outputs(index.graph)[0].value.out = 1;
  expectBroken(index, "output 'y' is a value that does not exist");
}

TEST(Verify, RefusesAnInitialValueOfAnotherType) {
  Sample s;
  GraphTestAccess::variables(s.graph)[0].initializer = Initializer::of(HostTensor(f32({5})));
  expectBroken(s, "variable 'v' is f32[2], its initial value f32[5]");
}

TEST(Verify, RefusesPlacementFieldsBelowMinusOne) {
  for (std::int32_t Placement::*field :
       {&Placement::stage, &Placement::phase, &Placement::device}) {
    Sample s;
    Placement place;
    place.*field = -2;
    s.graph.setPlacement(s.sum, place);
    expectBroken(s, "below -1");
  }
}

TEST(Verify, RefusesABlockThatDoesNotExist) {
  for (const std::int32_t block : {-2, 0, 7}) {
    Sample s;
    s.graph.setPlacement(s.sum, {.block = block});
    expectBroken(s, "none of the 0 blocks");
  }
}

TEST(Verify, RefusesPassesThatReadLaterOnes) {
  Sample forward;
  forward.graph.setPlacement(forward.input, {.pass = Pass::Backward});
  expectBroken(forward, "a forward op reads %0 of pass backward");
  Sample backward;
  backward.graph.setPlacement(backward.input, {.pass = Pass::Update});
  backward.graph.setPlacement(backward.sum, {.pass = Pass::Backward});
  expectBroken(backward, "a backward op reads %0 of pass update");
  Sample none;
  none.graph.setPlacement(none.noise, {.pass = static_cast<Pass>(3)});
  expectBroken(none, "none of the three");
}

TEST(Verify, RefusesRandomOpsWithoutAnOrdinal) {
  Sample s;
  s.graph.setAttr(s.noise, {"ordinal", -1});
  expectBroken(s, "no ordinal");
}

TEST(Verify, RefusesBrokenSubgraphs) {
  Sample inner;
  inner.graph.setAttr(inner.noise, {"ordinal", -1});
  Sample outer;
  outer.graph.setName("outer");
  GraphBuilder(outer.graph)
      .addMany(toy::kNested, {}, {{"body", std::make_shared<const Graph>(inner.graph)}});
  expectBroken(outer, "no ordinal");
}

}  // namespace
}  // namespace sluice::ir
