#include "sluice/transforms/autodiff.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ir/printer.h"
#include "sluice/ir/verify.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/transforms/gather_early.h"
#include "tests/support/pass_checks.h"

namespace sluice::transforms {
namespace {

using ::testing::HasSubstr;

ir::Value valueOf(const ir::Graph& graph, std::size_t position) {
  return graph.op(graph.order()[position]).out();
}

TEST(Autodiff, SumsTheGradientsOfAWeightFromItsLastUseOn) {
  ir::Graph graph = parseGraph(R"(graph "g" {
    var "w": f32[2] weight init constant(2)
    %0 = variable() {var="w"} : f32[2]
    %1 = neg(%0) : f32[2]
    %2 = exp(%0) "exp" : f32[2]
    %3 = mul(%0, %0) "mul" : f32[2]
    %4 = add(%1, %2) : f32[2]
    %5 = add(%4, %3) : f32[2]
    %6 = reduce_sum(%5) : f32[]
    output "loss" = %6
  })");
  const ir::Value w = valueOf(graph, 0);
  const std::vector<ir::Value> grads = differentiate(graph, valueOf(graph, 6), std::vector{w});
  verify(graph);
  // The uses on the way back: both operands of mul, exp, neg; ((mul1 + mul0) + exp) + neg.
  const ir::Op& last = graph.op(grads[0].op);
  ASSERT_TRUE(last.is(ops::kAdd));
  const ir::Op& second = graph.op(last.inputs[0].op);
  ASSERT_TRUE(second.is(ops::kAdd));
  const ir::Op& first = graph.op(second.inputs[0].op);
  ASSERT_TRUE(first.is(ops::kAdd));
  EXPECT_EQ(graph.op(first.inputs[0].op).name, "grad/mul/mul");
  EXPECT_EQ(graph.op(first.inputs[1].op).name, "grad/mul/mul");
  EXPECT_EQ(graph.op(second.inputs[1].op).name, "grad/exp/mul");
  EXPECT_TRUE(graph.op(last.inputs[1].op).is(ops::kNeg));
  EXPECT_EQ(first.name, "grad/mul/add") << "a sum is made as soon as its parts exist";
  graph.addOutput("grad", grads[0]);
  const double expected = -1.0 + std::exp(2.0) + 2.0 + 2.0;
  EXPECT_NEAR(runGraph(graph, 1).at("grad").at(0), expected, 1e-5);
}

/// The gradient of w in sum(x w), x of so many matrices [3, 4]: the ops it takes, and its value.
ir::Graph weightGradient(std::int64_t batch, bool transposed) {
  ir::Graph graph;
  ir::GraphBuilder b(graph);
  const TensorType type{DType::F32, transposed ? Shape{5, 4} : Shape{4, 5}};
  graph.addVariable({"w", type, ir::VariableRole::Weight, true, ir::Initializer::uniform(-1, 1)});
  const ir::Value x = b.input("x", {DType::F32, Shape{batch, 3, 4}});
  const ir::Value w = b.variable("w");
  const ir::Value y = ops::matmul(b, x, w, {.transposeB = transposed});
  const ir::Value loss = ops::reduceSum(b, ops::mul(b, y, y), {});
  graph.addOutput("grad", differentiate(graph, loss, std::vector{w})[0]);
  graph.addOutput("y", y);
  graph.addOutput("x", x);
  verify(graph);
  return graph;
}

TEST(Autodiff, OneMatrixForABatchGetsOneProductOverAllRows) {
  for (const bool transposed : {false, true}) {
    for (const std::int64_t batch : {1, 7}) {
      const ir::Graph graph = weightGradient(batch, transposed);
      const ir::Op& product = graph.op(graph.outputs()[0].value.op);
      ASSERT_TRUE(product.is(ops::kMatMul)) << product.def->name;
      EXPECT_EQ(graph.type(product.inputs[0]).shape.rank(), 2);
      // dw[i, j] = sum over all rows r of x[r, i] 2 y[r, j]
      const ops::TensorMap values = runGraph(graph, 3);
      for (std::int64_t i = 0; i < 4; ++i) {
        for (std::int64_t j = 0; j < 5; ++j) {
          double sum = 0;
          for (std::int64_t row = 0; row < 3 * batch; ++row) {
            sum += values.at("x").at(4 * row + i) * 2 * values.at("y").at(5 * row + j);
          }
          EXPECT_NEAR(values.at("grad").at(transposed ? 4 * j + i : 5 * i + j), sum, 1e-4);
        }
      }
    }
  }
}

TEST(GatherEarly, MovesSumsOfGradientsToWhereTheGradientsAre) {
  ir::Graph graph = parseGraph(R"(graph "g" {
    var "a": f32[2] accumulator init constant(0)
    var "b": f32[2] accumulator init constant(0)
    var "rate": f32[] scalar init constant(0)
    %0 = input() "x" : f32[2]
    %1 = exp(%0) "grad/second" : f32[2] @backward
    %2 = neg(%1) "grad/first" : f32[2] @backward
    %3 = abs(%2) "grad/input" : f32[2] @backward
    %4 = variable() {var="rate"} "rate" : f32[] @backward
    %5 = mul(%1, %4) "scaled" : f32[2] @backward
    assign(%5) {mode="sum", var="b"} "into b" : @backward
    %7 = variable() {var="b"} "sum" : f32[2] @update
    assign(%2) {mode="sum", var="a"} "into a" : @backward
    output "y" = %3
  })");
  const ir::Graph before = graph;
  gatherEarly(graph, 4);
  verify(graph);
  std::vector<std::string> names;
  for (const ir::OpId id : graph.order()) {
    names.push_back(graph.op(id).name);
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("x",
                                     "grad/second",
                                     "rate",
                                     "scaled",
                                     "into b",
                                     "grad/first",
                                     "into a",
                                     "grad/input",
                                     "sum"));
  expectSameValues(before, graph, 1);
}

constexpr std::string_view kTwoWeights = R"(graph "g" {
  var "used": f32[2] weight init constant(3)
  var "unused": f32[3] weight init constant(1)
  %0 = variable() {var="used"} : f32[2]
  %1 = variable() {var="unused"} : f32[3]
  %2 = mul(%0, %0) "net/square" : f32[2] block="B" stage=2 phase=1 device=3
  %3 = reduce_sum(%2) "net/sum" : f32[] stage=4
  output "loss" = %3
})";

TEST(Autodiff, GivesZerosForAWeightTheLossDoesNotDependOn) {
  ir::Graph graph = parseGraph(kTwoWeights);
  const auto grads =
      differentiate(graph, valueOf(graph, 3), std::vector{valueOf(graph, 0), valueOf(graph, 1)});
  graph.addOutput("used", grads[0]);
  graph.addOutput("unused", grads[1]);
  const ops::TensorMap results = runGraph(graph, 1);
  EXPECT_TRUE(results.at("used").sameBits(HostTensor::of<float>({2}, {6, 6})));
  EXPECT_TRUE(results.at("unused").sameBits(HostTensor(DType::F32, Shape{3})));
}

TEST(Autodiff, TagsItsOpsBackwardOnThePlacementOfTheForwardOp) {
  ir::Graph graph = parseGraph(kTwoWeights);
  const std::size_t forward = graph.numOps();
  const ir::Placement square = graph.op(graph.order()[2]).place;
  differentiate(graph, valueOf(graph, 3), std::vector{valueOf(graph, 0)});
  ASSERT_GT(graph.numOps(), forward);
  for (std::size_t i = 0; i < graph.numOps(); ++i) {
    const ir::Op& op = graph.op(graph.order()[i]);
    EXPECT_EQ(op.place.pass, i < forward ? ir::Pass::Forward : ir::Pass::Backward) << op.name;
    if (i >= forward) {
      ir::Placement expected =
          op.name.starts_with("grad/net/square/") ? square : ir::Placement{.stage = 4};
      expected.pass = ir::Pass::Backward;
      EXPECT_EQ(op.place, expected) << op.name;
    }
  }
  EXPECT_THAT(
      print(graph),
      HasSubstr("\"grad/net/square/mul\" : f32[2] @backward block=\"B\" stage=2 phase=1 device=3"));
}

TEST(Autodiff, StartsFromTheGradientItIsGiven) {
  ir::Graph graph = parseGraph(kTwoWeights);
  ir::GraphBuilder b(graph);
  const ir::Value scale = b.scalar(DType::F32, 8.0);
  const auto grads = differentiate(graph, valueOf(graph, 3), std::vector{valueOf(graph, 0)}, scale);
  graph.addOutput("grad", grads[0]);
  EXPECT_TRUE(runGraph(graph, 1).at("grad").sameBits(HostTensor::of<float>({2}, {48, 48})));
}

template <class E>
void expectRefused(std::string_view text,
                   std::size_t loss,
                   std::size_t wrt,
                   std::string_view word) {
  ir::Graph graph = parseGraph(text);
  try {
    differentiate(graph, valueOf(graph, loss), std::vector{valueOf(graph, wrt)});
    FAIL() << "expected: " << word;
  } catch (const E& error) {
    EXPECT_THAT(error.message(), HasSubstr(word));
  }
}

TEST(Autodiff, RefusesALossThatIsNoFloatScalar) {
  expectRefused<InvalidArgument>(kTwoWeights, 2, 0, "must be a float scalar, got f32[2]");
  expectRefused<InvalidArgument>(
      "graph \"g\" { %0 = input() \"x\" : i64[] }", 0, 0, "must be a float scalar, got i64[]");
}

TEST(Autodiff, RefusesGradientsOfIntegers) {
  expectRefused<InvalidArgument>(
      "graph \"g\" { %0 = input() \"x\" : f32[] %1 = input() \"y\" : i64[2] }",
      0,
      1,
      "with respect to i64[2]");
}

TEST(Autodiff, NamesAnOpThatHasNoGradient) {
  expectRefused<Unsupported>(
      R"(graph "g" {
    %0 = input() "x" : f32[2]
    %1 = fused(%0) {body=graph "fused" {
      %0 = input() "in0" : f32[2]
      %1 = neg(%0) : f32[2]
      output "out0" = %1
    }} "net/opaque" : f32[2]
    %2 = reduce_sum(%1) : f32[]
  })",
      2,
      0,
      "fused has no gradient, but the loss depends on it through op 'net/opaque'");
}

}  // namespace
}  // namespace sluice::transforms
