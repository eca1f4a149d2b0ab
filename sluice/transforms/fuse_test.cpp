// Fusion: which groups are made, which are not, and what the fused op refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ir/printer.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/fused.h"
#include "sluice/ops/window_ops.h"
#include "sluice/transforms/fuse_elementwise.h"
#include "tests/support/pass_checks.h"

namespace sluice::transforms {
namespace {

using ::testing::HasSubstr;

TEST(FuseElementwise, MakesOneOpOfATree) {
  expectPass(fuseElementwise,
             R"(graph "g" {
    %0 = input() "x" : f32[2, 3]
    %1 = input() "row" : f32[3]
    %2 = constant() {value=tensor<f32[] 2>} : f32[]
    %3 = mul(%0, %1) "a" : f32[2, 3] @backward block="B"
    %4 = exp(%0) "b" : f32[2, 3] @backward block="B"
    %5 = reduce_sum(%0) : f32[]
    %6 = add(%3, %4) "c" : f32[2, 3] @backward block="B"
    %7 = mul(%6, %2) "d" : f32[2, 3] @backward block="B"
    %8 = reduce_sum(%6) : f32[] @backward
    output "sum" = %8
    output "d" = %7
    output "other" = %5
  })",
             R"(graph "g" {
    %0 = input() "x" : f32[2, 3]
    %1 = input() "row" : f32[3]
    %2 = constant() {value=tensor<f32[] 2>} : f32[]
    %3 = reduce_sum(%0) : f32[]
    %4, %5 = fused(%0, %1) {body=graph "fused" {
      %0 = input() "in0" : f32[2, 3]
      %1 = input() "in1" : f32[3]
      %2 = mul(%0, %1) "a" : f32[2, 3]
      %3 = exp(%0) "b" : f32[2, 3]
      %4 = add(%2, %3) "c" : f32[2, 3]
      %5 = constant() {value=tensor<f32[] 2>} : f32[]
      %6 = mul(%4, %5) "d" : f32[2, 3]
      output "out0" = %4
      output "out1" = %6
    }} "d" : f32[2, 3], f32[2, 3] @backward block="B"
    %6 = reduce_sum(%4) : f32[] @backward
    output "sum" = %6
    output "d" = %5
    output "other" = %3
  })");
}

TEST(FuseElementwise, KeepsSmallerOperandsOutside) {
  expectPass(fuseElementwise,
             R"(graph "g" {
    %0 = input() "x" : f32[2, 3]
    %1 = input() "row" : f32[3]
    %2 = exp(%1) : f32[3]
    %3 = add(%0, %2) : f32[2, 3]
    %4 = neg(%3) : f32[2, 3]
    output "y" = %4
  })",
             R"(graph "g" {
    %0 = input() "x" : f32[2, 3]
    %1 = input() "row" : f32[3]
    %2 = exp(%1) : f32[3]
    %3 = fused(%0, %2) {body=graph "fused" {
      %0 = input() "in0" : f32[2, 3]
      %1 = input() "in1" : f32[3]
      %2 = add(%0, %1) : f32[2, 3]
      %3 = neg(%2) : f32[2, 3]
      output "out0" = %3
    }} : f32[2, 3]
    output "y" = %3
  })");
}

TEST(FuseElementwise, KeepsPassesAndPlacementsApart) {
  expectUnchanged(fuseElementwise, R"(graph "g" {
    %0 = input() "x" : f32[2]
    %1 = exp(%0) : f32[2]
    %2 = neg(%1) : f32[2] @backward
    %3 = exp(%2) : f32[2] @backward stage=1
    %4 = neg(%3) : f32[2] @backward stage=1 phase=1
    %5 = exp(%4) : f32[2] @backward stage=1 phase=1 device=0
    %6 = neg(%5) : f32[2] @backward block="B" stage=1 phase=1 device=0
    output "y" = %6
  })");
}

TEST(FuseElementwise, LeavesWhatNobodyReads) {
  expectUnchanged(fuseElementwise, R"(graph "g" {
    %0 = input() "x" : f32[2]
    %1 = exp(%0) : f32[2]
    %2 = neg(%1) : f32[2]
  })");
}

TEST(FuseElementwise, MakesNoCycle) {
  expectUnchanged(fuseElementwise, R"(graph "g" {
    %0 = input() "x" : f32[2]
    %1 = exp(%0) : f32[2]
    %2 = reduce_sum(%1) : f32[]
    %3 = mul(%1, %2) : f32[2]
    output "y" = %3
  })");
}

TEST(FuseElementwise, MovesNoReaderOfAVariableOverItsAssign) {
  constexpr std::string_view kText = R"(graph "g" {{
    var "v": f32[2] buffer init uniform(0, 1)
    var "w": f32[2] buffer init uniform(0, 1)
    %0 = input() "x" : f32[2]
    %1 = variable() {{var="v"}} : f32[2]
    %2 = reshape(%1) {{shape=[2]}} : f32[2]
    %3 = mul(%0, %2) : f32[2]
    assign(%0) {{var="{}"}}
    %4 = neg(%3) : f32[2]
    output "y" = %4
  }})";
  expectUnchanged(fuseElementwise, fmt::format(kText, "v"));
  ir::Graph other = parseGraph(fmt::format(kText, "w"));
  EXPECT_TRUE(fuseElementwise(other));
}

/// A chain of adds, each with an operand of its own.
ir::Graph chain(int length, bool ownOperands) {
  ir::Graph graph("chain");
  ir::GraphBuilder b(graph);
  ir::Value v = b.input("x", {DType::F32, Shape{2}});
  for (int i = 0; i < length; ++i) {
    v = ownOperands ? ops::add(b, v, b.input(fmt::format("y{}", i), b.type(v))) : ops::neg(b, v);
  }
  graph.addOutput("out", v);
  return graph;
}

std::size_t countFused(const ir::Graph& graph) {
  std::size_t count = 0;
  for (const ir::OpId id : graph.order()) {
    count += graph.op(id).is(ops::kFused) ? 1 : 0;
  }
  return count;
}

TEST(FuseElementwise, LimitsOpsAndOperands) {
  ir::Graph most = chain(static_cast<int>(kMaxFusedOps), false);
  EXPECT_TRUE(fuseElementwise(most));
  EXPECT_EQ(most.numOps(), 2U);
  const ir::Graph longer = chain(static_cast<int>(kMaxFusedOps) + 2, false);
  ir::Graph fused = longer;
  EXPECT_TRUE(fuseElementwise(fused));
  EXPECT_EQ(countFused(fused), 2U);
  expectSameValues(longer, fused, 3);
  const ir::Graph wide = chain(static_cast<int>(kMaxFusedOperands) + 1, true);
  fused = wide;
  EXPECT_TRUE(fuseElementwise(fused));
  EXPECT_EQ(countFused(fused), 2U) << "the first op of the rest joins the second group";
  for (const ir::OpId id : fused.order()) {
    EXPECT_LE(fused.op(id).inputs.size(), kMaxFusedOperands);
  }
  expectSameValues(wide, fused, 3);
}

constexpr std::string_view kLayer = R"(graph "g" {
  %0 = input() "x" : f32[2, 4]
  %1 = input() "w" : f32[4, 3]
  %2 = input() "bias" : f32[3]
  %3 = matmul(%0, %1) "mm" : f32[2, 3]
  %4 = add(%3, %2) "biased" : f32[2, 3]
  %5 = relu(%4) "act" : f32[2, 3]
  output "y" = %5
})";

constexpr std::string_view kFusedLayer = R"(graph "g" {
  %0 = input() "x" : f32[2, 4]
  %1 = input() "w" : f32[4, 3]
  %2 = input() "bias" : f32[3]
  %3 = fused(%0, %1, %2) {body=graph "fused" {
    %0 = input() "in0" : f32[2, 4]
    %1 = input() "in1" : f32[4, 3]
    %2 = input() "in2" : f32[3]
    %3 = matmul(%0, %1) "mm" : f32[2, 3]
    %4 = add(%3, %2) "biased" : f32[2, 3]
    %5 = relu(%4) "act" : f32[2, 3]
    output "out0" = %5
  }} "act" : f32[2, 3]
  output "y" = %3
})";

TEST(FuseEpilogues, AppendsElementwiseOpsToAMatmul) {
  expectPass(fuseEpilogues, kLayer, kFusedLayer);
}

TEST(FuseEpilogues, TakesFusedOpsApart) {
  ir::Graph graph = parseGraph(kLayer);
  EXPECT_TRUE(fuseElementwise(graph));
  EXPECT_EQ(countFused(graph), 1U);
  EXPECT_TRUE(fuseEpilogues(graph));
  EXPECT_EQ(print(graph), print(parseGraph(kFusedLayer)));
}

TEST(FuseEpilogues, AppendsToAConvolution) {
  ir::Graph graph("g");
  ir::GraphBuilder b(graph);
  const ir::Value x = b.input("x", {DType::F32, Shape{1, 2, 5, 5}});
  const ir::Value w = b.input("w", {DType::F32, Shape{3, 2, 3, 3}});
  graph.addOutput("y", ops::relu(b, b.add(ops::kConv, {x, w})));
  const ir::Graph before = graph;
  EXPECT_TRUE(fuseEpilogues(graph));
  EXPECT_EQ(graph.numOps(), 3U);
  expectSameValues(before, graph, 5);
}

TEST(FuseEpilogues, LeavesAnchorsThatOthersReadAndPureElementwiseGroups) {
  expectUnchanged(fuseEpilogues, R"(graph "g" {
    %0 = input() "x" : f32[2, 2]
    %1 = matmul(%0, %0) : f32[2, 2]
    %2 = relu(%1) : f32[2, 2]
    %3 = reduce_sum(%1) : f32[]
    %4 = matmul(%0, %0) {transposeA=true} : f32[2, 2]
    %5 = relu(%4) : f32[2, 2]
    %6 = exp(%0) : f32[2, 2]
    %7 = neg(%6) : f32[2, 2]
    output "a" = %2
    output "b" = %3
    output "c" = %4
    output "d" = %5
    output "e" = %7
  })");
}

TEST(FuseEpilogues, TakesOneAnchorOfTwo) {
  ir::Graph graph = parseGraph(R"(graph "g" {
    %0 = input() "x" : f32[2, 2]
    %1 = input() "w" : f32[2, 2]
    %2 = matmul(%0, %1) : f32[2, 2]
    %3 = matmul(%0, %1) {transposeA=true} : f32[2, 2]
    %4 = add(%2, %3) : f32[2, 2]
    output "y" = %4
  })");
  const ir::Graph before = graph;
  EXPECT_TRUE(fuseEpilogues(graph));
  EXPECT_EQ(graph.numOps(), 4U);
  expectSameValues(before, graph, 5);
}

// Devices lay an anchor's operands out as they like, which suits no other reader.
TEST(FuseEpilogues, LeavesAnAnchorAloneWhoseOperandIsReadTwice) {
  ir::Graph twice = parseGraph(R"(graph "g" {
    %0 = input() "x" : f32[2, 2]
    %1 = matmul(%0, %0) : f32[2, 2]
    %2 = relu(%1) : f32[2, 2]
    output "y" = %2
  })");
  EXPECT_FALSE(fuseEpilogues(twice));
  ir::Graph residual = parseGraph(R"(graph "g" {
    %0 = input() "x" : f32[2, 2]
    %1 = input() "w" : f32[2, 2]
    %2 = matmul(%0, %1) : f32[2, 2]
    %3 = add(%2, %1) : f32[2, 2]
    output "y" = %3
  })");
  EXPECT_FALSE(fuseEpilogues(residual));
}

TEST(Fused, CountsTheFlopsOfItsOpsAndTheBytesOfItsOperands) {
  const ir::Graph graph = parseGraph(kFusedLayer);
  const ir::Op& op = graph.op(graph.order()[3]);
  const std::vector<TensorType> types = graph.inputTypes(op);
  const ir::Cost cost = costOf(view(op, types));
  EXPECT_EQ(cost.flops, 2 * 2 * 4 * 3 + 6 + 6);
  EXPECT_EQ(cost.bytesRead, 4 * (8 + 12 + 3));
  EXPECT_EQ(cost.bytesWritten, 4 * 6);
}

void expectBadBody(std::string_view body, std::string_view word) {
  const std::string text = fmt::format(
      "graph \"g\" {{ %0 = input() \"x\" : f32[2]\n%1 = fused(%0) {{body=graph \"f\" {{\n"
      "{}\n}}}} : f32[2] }}",
      body);
  try {
    parseGraph(text);
    FAIL() << "accepted: " << text;
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), HasSubstr(word));
  }
}

TEST(Fused, RefusesBodiesThatAreNotElementwise) {
  const std::string in = "%0 = input() \"in0\" : f32[2]\n";
  expectBadBody("", "the body has 0 inputs, got 1 operands");
  expectBadBody("%0 = input() \"x\" : f32[2]", "input 0 of the body is named 'x'");
  expectBadBody("%0 = input() \"in0\" : f32[3]", "operand 0 must be f32[3], got f32[2]");
  expectBadBody(in, "the body has no op");
  expectBadBody(in + "%1 = neg(%0) : f32[2]", "the body has no output");
  expectBadBody(in + "%1 = neg(%0) : f32[2] output \"y\" = %1",
                "output 0 of the body is named 'y'");
  expectBadBody(in + "%1 = neg(%0) : f32[2] output \"out0\" = %0", "is no result of an op");
  expectBadBody(in + "%1 = reduce_sum(%0) : f32[]", "reduce_sum cannot stand in a body");
  expectBadBody(in + "%1 = neg(%0) : f32[2] %2 = matmul(%1, %0) : f32[]",
                "matmul cannot stand in a body");
  expectBadBody(in + "%1 = constant() {value=tensor<f32[1] 1>} : f32[1] %2 = neg(%1) : f32[1] "
                     "%3 = neg(%0) : f32[2]",
                "must have one shape, got [1] and [2]");
}

}  // namespace
}  // namespace sluice::transforms
