// Structural equality and hash: every field matters, ids and op names do not.
#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "sluice/ir/graph.h"
#include "tests/support/tensor_types.h"
#include "tests/support/toy_ops.h"

namespace sluice::ir {
namespace {

using testing::f32;

/// All that the sample graph is made from.
struct Recipe {
  Variable variable{"v", f32({2}), VariableRole::Weight, true, Initializer::uniform(-1, 1)};
  std::string inputName = "x";
  TensorType inputType = f32({2});
  bool swapOperands = false;
  Attrs attrs = {{"int", 1}, {"real", 2.0}, {"text", "t"}, {"ints", {1, 2}}};
  HostTensor constant = HostTensor::of<float>({2}, {1, 2});
  double inner = 1.0;
  Placement place = {.pass = Pass::Forward, .stage = 1, .phase = 2, .device = 3};
  std::string block = "B";
  std::string outputName = "out";
  std::size_t outputIndex = 0;
  std::string opName = "op";
};

Graph make(const Recipe& r) {
  Graph graph("g");
  graph.addVariable(r.variable);
  GraphBuilder b(graph);
  const Value x = b.input(r.inputName, r.inputType);
  b.constant(r.constant);
  const Value a = b.add(toy::kAttrs, {});
  const Value c = b.add(toy::kAttrs, {});
  b.place = r.place;
  b.place.block = graph.blockIndex(r.block);
  b.scope = r.opName;
  b.add(toy::kAttrs, r.swapOperands ? std::vector{c, a} : std::vector{a, c}, r.attrs);
  const auto parts = b.addMany(toy::kSplit, {x}, {{"sizes", {1, 1}}});
  Graph body("body");
  GraphBuilder(body).scalar(DType::F32, r.inner);
  b.addMany(toy::kNested, {}, {{"body", std::make_shared<const Graph>(body)}});
  graph.addOutput(r.outputName, parts[r.outputIndex]);
  return graph;
}

void expectDiffers(const Recipe& recipe, std::string_view what) {
  const Graph original = make({});
  const Graph changed = make(recipe);
  EXPECT_FALSE(structurallyEqual(original, changed)) << what;
  EXPECT_FALSE(structurallyEqual(changed, original)) << what;
  EXPECT_NE(structuralHash(original), structuralHash(changed)) << what;
}

TEST(Structure, EqualGraphsHaveEqualHashes) {
  EXPECT_TRUE(structurallyEqual(make({}), make({})));
  EXPECT_EQ(structuralHash(make({})), structuralHash(make({})));
}

TEST(Structure, OpNamesAndGraphNamesDoNotCount) {
  Graph other = make({.opName = "other"});
  other.setName("h");
  EXPECT_TRUE(structurallyEqual(make({}), other));
  EXPECT_EQ(structuralHash(make({})), structuralHash(other));
}

TEST(Structure, IdsDoNotCount) {
  Graph gap("g");
  GraphBuilder b(gap);
  const OpId removed = b.input("x", f32({})).op;
  gap.remove(std::vector{removed});
  b.input("y", f32({}));
  Graph plain("g");
  GraphBuilder(plain).input("y", f32({}));
  EXPECT_TRUE(structurallyEqual(gap, plain));
  EXPECT_EQ(structuralHash(gap), structuralHash(plain));
}

TEST(Structure, OrderOfBlocksDoesNotCount) {
  Graph b("g");
  b.blockIndex("unused");
  b.blockIndex("B");
  Graph c("g");
  c.blockIndex("B");
  for (Graph* graph : {&b, &c}) {
    GraphBuilder builder(*graph);
    builder.place.block = graph->blockIndex("B");
    builder.add(toy::kAttrs, {});
  }
  EXPECT_TRUE(structurallyEqual(b, c));
  EXPECT_EQ(structuralHash(b), structuralHash(c));
}

TEST(Structure, EveryFieldOfAVariableCounts) {
  const auto with = [](auto change) {
    Recipe r;
    change(r.variable);
    return r;
  };
  expectDiffers(with([](Variable& v) { v.name = "w"; }), "name");
  expectDiffers(with([](Variable& v) { v.type.dtype = DType::F16; }), "dtype");
  expectDiffers(with([](Variable& v) { v.type.shape = Shape{3}; }), "shape");
  expectDiffers(with([](Variable& v) { v.role = VariableRole::Buffer; }), "role");
  expectDiffers(with([](Variable& v) { v.trainable = false; }), "trainable");
  expectDiffers(with([](Variable& v) { v.initializer.a = -2; }), "low");
  expectDiffers(with([](Variable& v) { v.initializer.b = 2; }), "high");
  expectDiffers(with([](Variable& v) { v.initializer = Initializer::normal(-1, 1); }), "kind");
  expectDiffers(with([](Variable& v) { v.initializer.tensor = HostTensor::of<float>({1}, {1}); }),
                "tensor");
}

TEST(Structure, EveryFieldOfAnOpCounts) {
  expectDiffers({.inputName = "y"}, "input name");
  expectDiffers({.swapOperands = true}, "operands");
  expectDiffers({.constant = HostTensor::of<float>({2}, {1, 3})}, "tensor attribute");
  expectDiffers({.inner = 2.0}, "subgraph attribute");
  expectDiffers({.block = "C"}, "block");
  expectDiffers({.outputName = "o"}, "output name");
  expectDiffers({.outputIndex = 1}, "output value");
  expectDiffers({.inputType = f32({3})}, "type");
  for (auto change : {+[](Placement& p) { p.pass = Pass::Update; },
                      +[](Placement& p) { p.stage = 9; },
                      +[](Placement& p) { p.phase = 9; },
                      +[](Placement& p) { p.device = 9; }}) {
    Recipe r;
    change(r.place);
    expectDiffers(r, "placement");
  }
  for (const NamedAttr& attr : {NamedAttr{"int", 2},
                                NamedAttr{"real", -2.0},
                                NamedAttr{"text", "u"},
                                NamedAttr{"flag", true},
                                NamedAttr{"ints", {1, 3}},
                                NamedAttr{"reals", std::vector<double>{1.0}},
                                NamedAttr{"texts", std::vector<std::string>{""}}}) {
    Recipe r;
    r.attrs.set(attr);
    expectDiffers(r, attr.name);
  }
}

TEST(Structure, ANumberOfOpsOrOutputsCounts) {
  const Graph original = make({});
  Graph more = original;
  GraphBuilder(more).add(toy::kAttrs, {});
  EXPECT_FALSE(structurallyEqual(original, more));
  EXPECT_NE(structuralHash(original), structuralHash(more));
  Graph fewer = original;
  fewer.setOutputs({});
  EXPECT_FALSE(structurallyEqual(original, fewer));
  EXPECT_NE(structuralHash(original), structuralHash(fewer));
}

TEST(Structure, KindOfOpCounts) {
  const auto with = [](const OpDef& def) {
    Graph graph("g");
    GraphBuilder b(graph);
    const Value x = b.input("x", f32({2}));
    b.add(def, {x, x}, &def == &toy::kSum ? Attrs() : Attrs{{"shape", {2}}});
    return graph;
  };
  EXPECT_FALSE(structurallyEqual(with(toy::kSum), with(toy::kPickOne)));
  EXPECT_NE(structuralHash(with(toy::kSum)), structuralHash(with(toy::kPickOne)));
}

TEST(Structure, ZeroAndMinusZeroDifferAndNaNEqualsItself) {
  const auto with = [](double value) {
    Recipe r;
    r.variable.initializer = Initializer::constant(value);
    r.attrs.set({"real", value});
    return make(r);
  };
  EXPECT_FALSE(structurallyEqual(with(0.0), with(-0.0)));
  EXPECT_NE(structuralHash(with(0.0)), structuralHash(with(-0.0)));
  EXPECT_TRUE(structurallyEqual(with(NAN), with(NAN)));
  EXPECT_EQ(structuralHash(with(NAN)), structuralHash(with(NAN)));
}

}  // namespace
}  // namespace sluice::ir
