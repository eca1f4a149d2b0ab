// Every pass but fusion: text in, text out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ir/parser.h"
#include "sluice/ir/printer.h"
#include "sluice/ir/verify.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/fused.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/transforms/decompose.h"
#include "sluice/transforms/eliminate_common.h"
#include "sluice/transforms/eliminate_dead.h"
#include "sluice/transforms/fold_constants.h"
#include "sluice/transforms/fuse_elementwise.h"
#include "sluice/transforms/half_scores.h"
#include "sluice/transforms/number_names.h"
#include "tests/support/pass_checks.h"

namespace sluice::transforms {
namespace {

using ::testing::HasSubstr;

bool decomposeAll(ir::Graph& graph) {
  return decompose(graph, [](const ir::Op&) { return false; });
}

TEST(NumberNames, TellsOpsOfOneNameApart) {
  constexpr std::string_view kBefore = R"(graph "g" {
    %0 = input() "relu" : f32[2]
    %1 = relu(%0) "relu" : f32[2]
    %2 = relu(%1) "relu" : f32[2]
    %3 = neg(%2) "relu#2" : f32[2]
    %4 = relu(%3) "relu" : f32[2]
    output "y" = %4
  })";
  constexpr std::string_view kAfter = R"(graph "g" {
    %0 = input() "relu" : f32[2]
    %1 = relu(%0) "relu" : f32[2]
    %2 = relu(%1) "relu#3" : f32[2]
    %3 = neg(%2) "relu#2" : f32[2]
    %4 = relu(%3) "relu#4" : f32[2]
    output "y" = %4
  })";
  expectPass(numberNames, kBefore, kAfter);
  expectUnchanged(numberNames, kAfter);
}

constexpr std::string_view kLoss = R"(graph "g" {
  %0 = input() "x" : f32[2, 3]
  %1 = input() "y" : f32[2, 3]
  %2 = mse_loss(%0, %1) "net/loss" : f32[] block="B" stage=1
  %3 = neg(%2) : f32[]
  output "loss" = %2
  output "negative" = %3
})";

TEST(Decompose, PutsThePartsInPlaceOfTheComposite) {
  expectPass(decomposeAll, kLoss, R"(graph "g" {
    %0 = input() "x" : f32[2, 3]
    %1 = input() "y" : f32[2, 3]
    %2 = sub(%0, %1) "net/loss/sub" : f32[2, 3] block="B" stage=1
    %3 = square(%2) "net/loss/square" : f32[2, 3] block="B" stage=1
    %4 = reduce_mean(%3) "net/loss/reduce_mean" : f32[] block="B" stage=1
    %5 = neg(%4) : f32[]
    output "loss" = %4
    output "negative" = %5
  })");
}

TEST(Decompose, LeavesWhatADeviceKeeps) {
  expectUnchanged(
      [](ir::Graph& graph) { return decompose(graph, [](const ir::Op&) { return true; }); }, kLoss);
}

constexpr std::string_view kCastScores = R"(graph "g" {
  %0 = input() "x" : bf16[4, 7]
  %1 = input() "y" : f32[4, 7]
  %2 = constant() {value=tensor<i64[4] 0, 6, 3, 3>} : i64[4]
  %3 = cast(%0) {dtype="f32"} : f32[4, 7]
  %4, %5 = cross_entropy(%3, %2) {labelSmoothing=0.25} "net/loss" : f32[], f32[4]
  %6, %7 = cross_entropy(%1, %2) : f32[], f32[4]
  output "loss" = %4
  output "sums" = %5
  output "other" = %6
})";

TEST(HalfScores, AreReadAsTheyAreWhereADeviceCan) {
  expectPass(
      [](ir::Graph& graph) {
        return readHalfScores(graph,
                              [](const ir::OpView& op) { return op.attrs.flag("wideLoss"); });
      },
      kCastScores,
      R"(graph "g" {
    %0 = input() "x" : bf16[4, 7]
    %1 = input() "y" : f32[4, 7]
    %2 = constant() {value=tensor<i64[4] 0, 6, 3, 3>} : i64[4]
    %3 = cast(%0) {dtype="f32"} : f32[4, 7]
    %4, %5 = cross_entropy(%0, %2) {labelSmoothing=0.25, wideLoss=true} "net/loss/cross_entropy" : f32[], f32[4]
    %6, %7 = cross_entropy(%1, %2) : f32[], f32[4]
    output "loss" = %4
    output "sums" = %5
    output "other" = %6
  })");
  expectUnchanged(
      [](ir::Graph& graph) {
        return readHalfScores(graph, [](const ir::OpView&) { return false; });
      },
      kCastScores);
}

TEST(HalfScores, HaveTheGradientsOfScoresThatWereCast) {
  HostTensor scores(TensorType{DType::BF16, Shape{5, 9}});
  for (std::int64_t i = 0; i < 45; ++i) {
    scores.set(i, static_cast<double>(i * 37 % 61) / 9.0 - 3.0);
  }
  const HostTensor wide = cast(scores, DType::F32);
  const HostTensor labels = HostTensor::of<std::int64_t>({5}, {0, 8, 2, -100, 4});
  const HostTensor slope = HostTensor::of<float>({}, {0.75F});
  const HostTensor sums = ops::evaluate(ops::kCrossEntropy, {}, {wide, labels})[1];
  const HostTensor expected =
      ops::evaluate(ops::kCrossEntropyGrad, {}, {wide, labels, sums, slope})[0];
  const HostTensor found =
      ops::evaluate(ops::kCrossEntropyGrad, {{"wideLoss", true}}, {scores, labels, sums, slope})[0];
  EXPECT_TRUE(found.sameBits(cast(expected, DType::BF16)));
}

/// twice(x) = once(once(x)), once(x) = neg(x): composites of composites, one reading the other.
std::vector<ir::Value> once(ir::GraphBuilder& b, const ir::OpView&, std::span<const ir::Value> in) {
  return {ops::neg(b, in[0])};
}
std::vector<TensorType> sameType(const ir::OpView& op) {
  return {op.inputs[0]};
}
constexpr ir::OpDef kOnce{.name = "once", .infer = sameType, .decompose = once};
std::vector<ir::Value> twice(ir::GraphBuilder& b,
                             const ir::OpView&,
                             std::span<const ir::Value> in) {
  return {b.add(kOnce, {b.add(kOnce, {in[0]})})};
}
constexpr ir::OpDef kTwice{.name = "twice", .infer = sameType, .decompose = twice};

TEST(Decompose, GoesOnUntilNoCompositeIsLeft) {
  ir::Graph graph("g");
  ir::GraphBuilder b(graph);
  const ir::Value x = b.input("x", {DType::F32, Shape{2}});
  graph.addOutput("y", b.add(kTwice, {b.add(kTwice, {x})}));
  EXPECT_TRUE(decomposeAll(graph));
  EXPECT_EQ(print(graph), R"(graph "g" {
  %0 = input() "x" : f32[2]
  %1 = neg(%0) "twice/once/neg" : f32[2]
  %2 = neg(%1) "twice/once/neg" : f32[2]
  %3 = neg(%2) "twice/once/neg" : f32[2]
  %4 = neg(%3) "twice/once/neg" : f32[2]
  output "y" = %4
}
)");
}

const ir::OpDef& endless();
std::vector<ir::Value> again(ir::GraphBuilder& b,
                             const ir::OpView&,
                             std::span<const ir::Value> in) {
  return {b.add(endless(), {in[0]})};
}
const ir::OpDef& endless() {
  static constexpr ir::OpDef kEndless{.name = "endless", .infer = sameType, .decompose = again};
  return kEndless;
}

TEST(Decompose, StopsAtAnOpThatDecomposesIntoItself) {
  ir::Graph graph("g");
  ir::GraphBuilder b(graph);
  b.add(endless(), {b.input("x", {DType::F32, Shape{2}})});
  EXPECT_THROW(decomposeAll(graph), InternalError);
}

TEST(FoldConstants, ComputesWhatDependsOnConstantsAlone) {
  expectPass(foldConstants,
             R"(graph "g" {
    %0 = input() "x" : f32[2]
    %1 = constant() {value=tensor<f32[2] 1, 2>} : f32[2]
    %2 = constant() {value=tensor<f32[] 3>} : f32[]
    %3 = mul(%1, %2) "m" : f32[2] stage=1
    %4 = neg(%3) "n" : f32[2] stage=1
    %5 = add(%0, %4) : f32[2]
    output "y" = %5
    output "n" = %4
  })",
             R"(graph "g" {
    %0 = input() "x" : f32[2]
    %1 = constant() {value=tensor<f32[2] 1, 2>} : f32[2]
    %2 = constant() {value=tensor<f32[] 3>} : f32[]
    %3 = constant() {value=tensor<f32[2] -3, -6>} "n" : f32[2] stage=1
    %4 = add(%0, %3) : f32[2]
    output "y" = %4
    output "n" = %3
  })");
}

TEST(FoldConstants, LeavesResultsThatOutgrowTheirOperands) {
  constexpr std::string_view kText = R"(graph "g" {{
    %0 = constant() {{value=tensor<f32[] 3>}} : f32[]
    %1 = broadcast_to(%0) {{shape=[{0}]}} : f32[{0}]
    output "y" = %1
  }})";
  const std::int64_t limit = kMaxGrownBytes / 4;
  expectUnchanged(foldConstants, fmt::format(kText, limit + 1));
  ir::Graph graph = parseGraph(fmt::format(kText, limit));
  EXPECT_TRUE(foldConstants(graph));
}

TEST(FoldConstants, LeavesLargeResults) {
  const auto folds = [](std::int64_t elements) {
    ir::Graph graph("g");
    ir::GraphBuilder b(graph);
    const ir::Value x = b.constant(HostTensor(DType::F32, Shape{elements}));
    graph.addOutput("y", ops::neg(b, x));
    return foldConstants(graph);
  };
  const auto limit = static_cast<std::int64_t>(kMaxFoldedBytes / 4);
  EXPECT_TRUE(folds(limit));
  EXPECT_FALSE(folds(limit + 1));
}

TEST(FoldConstants, LeavesVariablesInputsEffectsAndKeptOps) {
  expectUnchanged(foldConstants, R"(graph "g" {
    var "v": f32[] buffer init constant(1)
    %0 = input() "x" : f32[]
    %1 = constant() {value=tensor<f32[] 3>} : f32[]
    %2 = add(%0, %1) : f32[]
    assign(%1) {var="v"}
    %3 = variable() {var="v"} : f32[]
    %4 = neg(%3) : f32[]
    %5 = nop(%1) : f32[]
    output "y" = %2
    output "z" = %4
    output "w" = %5
  })");
}

TEST(EliminateCommon, MergesEqualOpsThroughTheirOperands) {
  expectPass(eliminateCommon,
             R"(graph "g" {
    %0 = input() "x" : f32[2]
    %1 = constant() {value=tensor<f32[] 3>} "a" : f32[]
    %2 = constant() {value=tensor<f32[] 3>} "b" : f32[]
    %3 = mul(%0, %1) "first" : f32[2]
    %4 = mul(%0, %2) "second" : f32[2]
    %5 = add(%3, %4) : f32[2]
    output "y" = %5
    output "z" = %4
  })",
             R"(graph "g" {
    %0 = input() "x" : f32[2]
    %1 = constant() {value=tensor<f32[] 3>} "a" : f32[]
    %2 = mul(%0, %1) "first" : f32[2]
    %3 = add(%2, %2) : f32[2]
    output "y" = %3
    output "z" = %2
  })");
}

TEST(EliminateCommon, KeepsApartWhatDiffersInAnything) {
  expectUnchanged(eliminateCommon, R"(graph "g" {
    %0 = input() "x" : f32[2, 2]
    %1 = input() "y" : f32[2, 2]
    %2 = constant() {value=tensor<f32[] 0>} : f32[]
    %3 = constant() {value=tensor<f32[] -0>} : f32[]
    %4 = reduce_sum(%0) {axes=[0]} : f32[2]
    %5 = reduce_sum(%0) {axes=[1]} : f32[2]
    %6 = add(%0, %1) : f32[2, 2]
    %7 = add(%1, %0) : f32[2, 2]
    %8 = add(%0, %1) : f32[2, 2] stage=1
    %9 = add(%0, %1) : f32[2, 2] @backward
    %10 = mul(%0, %1) : f32[2, 2]
    %11 = nop(%0) : f32[2, 2]
    %12 = nop(%0) : f32[2, 2]
  })");
}

TEST(EliminateCommon, MergesReadsOfAVariableOnlyBetweenItsAssigns) {
  expectPass(eliminateCommon,
             R"(graph "g" {
    var "v": f32[] buffer init constant(1)
    var "w": f32[] buffer init constant(2)
    %0 = variable() {var="v"} : f32[]
    %1 = neg(%0) : f32[]
    assign(%1) {var="w"}
    %2 = variable() {var="v"} : f32[]
    %3 = neg(%2) : f32[]
    assign(%3) {var="v"}
    %4 = variable() {var="v"} : f32[]
    %5 = neg(%4) : f32[]
    output "a" = %1
    output "b" = %3
    output "c" = %5
  })",
             R"(graph "g" {
    var "v": f32[] buffer init constant(1)
    var "w": f32[] buffer init constant(2)
    %0 = variable() {var="v"} : f32[]
    %1 = neg(%0) : f32[]
    assign(%1) {var="w"}
    assign(%1) {var="v"}
    %2 = variable() {var="v"} : f32[]
    %3 = neg(%2) : f32[]
    output "a" = %1
    output "b" = %1
    output "c" = %3
  })");
}

TEST(EliminateDead, RemovesWhatNobodyReads) {
  expectPass(eliminateDead,
             R"(graph "g" {
    var "v": f32[2] buffer init constant(1)
    %0 = input() "x" : f32[2]
    %1 = input() "unused" : f32[2]
    %2 = neg(%0) : f32[2]
    %3 = exp(%2) : f32[2]
    %4 = variable() {var="v"} : f32[2]
    %5 = exp(%0) : f32[2]
    assign(%5) {var="v"}
    %6 = nop(%0) : f32[2]
    %7 = mul(%0, %0) : f32[2]
    output "y" = %7
  })",
             R"(graph "g" {
    var "v": f32[2] buffer init constant(1)
    %0 = input() "x" : f32[2]
    %1 = input() "unused" : f32[2]
    %2 = exp(%0) : f32[2]
    assign(%2) {var="v"}
    %3 = nop(%0) : f32[2]
    %4 = mul(%0, %0) : f32[2]
    output "y" = %4
  })");
}

TEST(Passes, KeepTheBitsOfRandomGraphs) {
  const std::vector<std::pair<std::string_view, Pass>> all = {{"fold", foldConstants},
                                                              {"common", eliminateCommon},
                                                              {"dead", eliminateDead},
                                                              {"fuse", fuseElementwise},
                                                              {"epilogues", fuseEpilogues}};
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const ir::Graph original = randomGraph(seed, 40);
    ir::verify(original);
    for (const auto& [name, pass] : all) {
      SCOPED_TRACE(fmt::format("seed {}, pass {}", seed, name));
      ir::Graph graph = original;
      const bool changed = pass(graph);
      ir::verify(graph);
      EXPECT_NE(changed, structurallyEqual(graph, original))
          << "it says the opposite of what it did";
      expectSameValues(original, graph, seed);
      ir::Graph again = graph;
      EXPECT_FALSE(pass(again));
      EXPECT_EQ(print(again), print(graph)) << "a second run changed the graph";
      EXPECT_TRUE(structurallyEqual(parseGraph(print(graph)), graph));
    }
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

TEST(Passes, FusedOpsAreTakenApartWithTheSameBits) {
  int apart = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ir::Graph original = randomGraph(seed, 40);
    ir::Graph graph = original;
    fuseElementwise(graph);
    fuseEpilogues(graph);
    apart += decompose(graph, [](const ir::Op& op) { return !op.is(ops::kFused); }) ? 1 : 0;
    ir::verify(graph);
    for (const ir::OpId id : graph.order()) {
      EXPECT_FALSE(graph.op(id).is(ops::kFused));
    }
    expectSameValues(original, graph, seed);
  }
  EXPECT_GT(apart, 50);
}

TEST(Passes, GroupsThatAreNotAcceptedStayApart) {
  int asked = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ir::Graph original = randomGraph(seed, 40);
    ir::Graph graph = original;
    const auto refuse = [&](const ir::OpView& op, const ir::Placement&) {
      EXPECT_FALSE(op.outputs.empty());
      ++asked;
      return false;
    };
    EXPECT_FALSE(fuseElementwiseIf(graph, refuse));
    EXPECT_FALSE(fuseEpiloguesIf(graph, refuse));
    EXPECT_TRUE(structurallyEqual(graph, original));
  }
  EXPECT_GT(asked, 20);
}

}  // namespace
}  // namespace sluice::transforms
