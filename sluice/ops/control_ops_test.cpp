// Loops and branches: what they refuse, their text, and how code becomes one.
#include "sluice/ops/control_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/parser.h"
#include "sluice/ir/printer.h"
#include "sluice/ir/verify.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/trace_control.h"
#include "tests/support/message_of.h"

namespace sluice::ops {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Values = std::vector<Value>;

constexpr std::string_view kLoopText = R"(graph "g" {
  %0 = input() "x" : f64[]
  %1 = input() "rows" : f64[3]
  %2 = input() "w" : f64[]
  %3, %4 = loop(%0, %1, %2) {body=graph "b" {
    %0 = input() "in0" : f64[]
    %1 = input() "in1" : f64[]
    %2 = input() "in2" : f64[]
    %3 = mul(%0, %2) : f64[]
    %4 = add(%3, %1) : f64[]
    output "out0" = %4
    output "out1" = %4
  }, carried=1, count=3, scanned=1} : f64[], f64[3]
  output "last" = %3
  output "all" = %4
})";

TEST(Loop, HasATextAndTheValuesOfItsIterations) {
  const ir::Graph graph = ir::parse(kLoopText, opSet());
  verify(graph);
  EXPECT_TRUE(ir::structurallyEqual(ir::parse(ir::print(graph), opSet()), graph));
  TensorMap none;
  const TensorMap results = evaluate(graph,
                                     {{"x", HostTensor::scalar(1.0)},
                                      {"rows", HostTensor::of<double>({3}, {1, 2, 3})},
                                      {"w", HostTensor::scalar(2.0)}},
                                     none);
  EXPECT_THAT(results.at("all").toDoubles(), ElementsAre(3, 8, 19));
  EXPECT_EQ(results.at("last").at(0), 19);
}

std::string refusalOf(std::string_view what, std::string_view with) {
  std::string text(kLoopText);
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  text.replace(at, what.size(), with);
  return messageOf<Error>([&] { ir::parse(text, opSet()); });
}

TEST(Loop, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusalOf("count=3", "count=-1"), HasSubstr("negative"));
  EXPECT_THAT(refusalOf("count=3", "count=4"), HasSubstr("must have 4 rows"));
  EXPECT_THAT(refusalOf("carried=1", "carried=4"), HasSubstr("4 carried"));
  EXPECT_THAT(refusalOf("scanned=1", "scanned=0"), HasSubstr("takes f64[] as input 1"));
  EXPECT_THAT(refusalOf("\"in1\"", "\"first\""), HasSubstr("named 'first'"));
  EXPECT_THAT(refusalOf("\"out0\"", "\"first\""), HasSubstr("named 'first'"));
  EXPECT_THAT(refusalOf("loop(%0, %1, %2)", "loop(%0, %1)"), HasSubstr("3 inputs, got 2"));
  EXPECT_THAT(refusalOf("%4 = add(%3, %1) : f64[]", "%4 = reshape(%3) {shape=[1]} : f64[1]"),
              HasSubstr("as carried value 0 and returns f64[1]"));
  EXPECT_THAT(refusalOf("%3 = mul(%0, %2)", "%3 = dropout(%0) {ordinal=0, p=0.5}"),
              HasSubstr("dropout cannot stand in a body"));
  EXPECT_THAT(refusalOf("%3 = mul(%0, %2)", "%3 = replica_sum(%0)"),
              HasSubstr("replica_sum cannot stand in a body"));
  EXPECT_THAT(refusalOf("output \"out0\" = %4\n    output \"out1\" = %4", ""),
              HasSubstr("must return what it carries"));
}

constexpr std::string_view kBranchText = R"(graph "g" {
  %0 = input() "c" : bool[]
  %1 = input() "x" : f64[2]
  %2 = branch(%0, %1) {else=graph "e" {
    %0 = input() "in0" : f64[2]
    output "out0" = %0
  }, then=graph "t" {
    %0 = input() "in0" : f64[2]
    %1 = neg(%0) : f64[2]
    output "out0" = %1
  }} : f64[2]
  output "y" = %2
})";

TEST(Branch, HasATextAndTheValuesOfOneBody) {
  const ir::Graph graph = ir::parse(kBranchText, opSet());
  verify(graph);
  EXPECT_TRUE(ir::structurallyEqual(ir::parse(ir::print(graph), opSet()), graph));
  for (const bool chosen : {false, true}) {
    TensorMap none;
    const TensorMap results =
        evaluate(graph,
                 {{"c", HostTensor::scalar(chosen)}, {"x", HostTensor::of<double>({2}, {1, -2})}},
                 none);
    EXPECT_EQ(results.at("y").at(0), chosen ? -1 : 1);
  }
}

TEST(Branch, RefusesWhatDoesNotFit) {
  const auto refusal = [](std::string_view what, std::string_view with) {
    std::string text(kBranchText);
    text.replace(text.find(what), what.size(), with);
    return messageOf<Error>([&] { ir::parse(text, opSet()); });
  };
  EXPECT_THAT(refusal("\"c\" : bool[]", "\"c\" : bool[1]"), HasSubstr("must be bool[]"));
  EXPECT_THAT(refusal("%1 = neg(%0) : f64[2]", "%1 = reshape(%0) {shape=[1, 2]} : f64[1, 2]"),
              HasSubstr("result 0 is f64[1, 2]"));
  EXPECT_THAT(refusal("output \"out0\" = %0", ""), HasSubstr("1 and 0"));
}

TEST(TraceLoop, TakesWhatABodyReadsFromOutside) {
  ir::Graph graph("g");
  GraphBuilder b(graph);
  graph.addVariable({"v", {DType::F64, Shape{2}}, ir::VariableRole::Weight, true, {}});
  const Value x = b.input("x", {DType::F64, Shape{2}});
  const Value outside = exp(b, x);
  Value variable;
  const Values results = traceLoop(b, {.count = 20, .carried = {x}}, [&](auto carried, auto) {
    variable = b.variable("v");
    const Value scaled = mul(b, carried[0], b.scalar(DType::F64, 0.5));
    return Iteration{.carried = {add(b, add(b, scaled, outside), variable)}};
  });
  graph.addOutput("y", results[0]);
  verify(graph);
  const ir::Op& loop = graph.op(results[0].op);
  ASSERT_TRUE(loop.is(kLoop));
  EXPECT_THAT(loop.inputs, ElementsAre(x, outside, variable)) << "numbers are in the body itself";
  EXPECT_EQ(loop.attrs.subgraph("body").inputs().size(), 3U);
}

TEST(TraceLoop, IsUnrolledIfItMayNotBeRolled) {
  for (const bool allowed : {false, true}) {
    ir::Graph graph("g");
    GraphBuilder b(graph);
    const Value x = b.input("x", {DType::F64, Shape{2}});
    int calls = 0;
    traceLoop(b, {.count = 20, .carried = {x}}, [&](auto carried, auto) {
      ++calls;
      return Iteration{.carried = {neg(b, carried[0])}, .mayBeRolled = allowed};
    });
    EXPECT_EQ(calls, allowed ? 1 : 20);
  }
}

}  // namespace
}  // namespace sluice::ops
