// The passes as the compiler runs them: one after the other on whole graphs.
#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/compile/compile.h"
#include "sluice/ir/graph.h"
#include "sluice/ir/printer.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/helpers.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/support/pass_checks.h"
#include "tests/support/toy_kernels.h"

namespace sluice::compiler {
namespace {

using ::testing::HasSubstr;
using transforms::expectSameValues;
using transforms::parseGraph;
using transforms::randomGraph;

constexpr std::string_view kLoss = R"(graph "g" {
  %0 = input() "x" : f32[2, 3]
  %1 = constant() {value=tensor<i64[2] 0, 2>} : i64[2]
  %2, %3 = cross_entropy(%0, %1) "net/loss" : f32[], f32[2] block="B" stage=1
  output "loss" = %2
})";

const ir::OpDef& endless();
std::vector<ir::Value> again(ir::GraphBuilder& b,
                             const ir::OpView&,
                             std::span<const ir::Value> in) {
  return {b.add(endless(), {in[0]})};
}
std::vector<TensorType> sameType(const ir::OpView& op) {
  return {op.inputs[0]};
}
const ir::OpDef& endless() {
  static constexpr ir::OpDef kEndless{.name = "endless", .infer = sameType, .decompose = again};
  return kEndless;
}

TEST(Pipeline, FusesOnlyWhenAsked) {
  constexpr std::string_view kText = R"(graph "g" {
    %0 = input() "x" : f32[2]
    %1 = exp(%0) : f32[2]
    %2 = neg(%1) : f32[2]
    output "y" = %2
  })";
  const ir::Graph plain = runPasses(parseGraph(kText), false);
  EXPECT_EQ(print(plain), print(parseGraph(kText)));
  const ir::Graph fused = runPasses(parseGraph(kText));
  EXPECT_EQ(fused.numOps(), 2U);
  expectSameValues(plain, fused, 1);
}

TEST(Pipeline, KeepsTheCompositesItIsToldToKeep) {
  CompileRequest request{.graph = parseGraph(kLoss)};
  request.keepComposite = [](const ir::Op& op) { return op.is(ops::kCrossEntropy); };
  request.last = CompilePhase::Passes;
  const ir::Graph kept = compileGraph(request).graph;
  EXPECT_THAT(print(kept), HasSubstr("cross_entropy"));
  EXPECT_THAT(print(runPasses(kept)), ::testing::Not(HasSubstr("cross_entropy")));
}

TEST(Pipeline, NamesThePassThatFailed) {
  ir::Graph graph("g");
  ir::GraphBuilder b(graph);
  b.add(endless(), {b.input("x", {DType::F32, Shape{2}})});
  try {
    runPasses(graph);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_EQ(error.location(), "pass decompose");
  }
}

TEST(Nop, StaysWhenThePassesHaveRun) {
  ir::Graph graph;
  {
    nn::Tracer tracer(graph, nn::TraceMode::Inference);
    const nn::Tensor x = tracer.input("x", {DType::F32, Shape{2}});
    const nn::Tensor unread = nn::nop(x);
    EXPECT_TRUE(unread.defined());
    graph.addOutput(
        "y", (nn::nop(x) + nn::nop(nn::constant(HostTensor::of<float>(Shape{2}, {1, 2})))).value());
  }
  graph = runPasses(std::move(graph));
  EXPECT_EQ(
      std::ranges::count_if(graph.order(), [&](ir::OpId id) { return graph.op(id).is(ops::kNop); }),
      3);
}

TEST(Pipeline, KeepsTheBitsOfRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ir::Graph original = randomGraph(seed, 60);
    expectSameValues(original, runPasses(original), seed);
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace sluice::compiler
