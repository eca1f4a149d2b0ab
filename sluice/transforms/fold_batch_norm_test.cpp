// Norms that are folded into the product before them: by hand, against float64, and what stays.
#include "sluice/transforms/fold_batch_norm.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/ir/printer.h"
#include "sluice/ir/verify.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"
#include "tests/support/pass_checks.h"

namespace sluice::transforms {
namespace {

using ir::GraphBuilder;
using ir::Value;

constexpr std::string_view kHandNorm = R"(graph "g" {
  %0 = input() "x" : f32[1, 1, 2]
  %1 = constant() {value=tensor<f32[2, 1, 1] 1, 2>} "w" : f32[2, 1, 1] block="A"
  %2 = constant() {value=tensor<f32[2, 1] 3, 4>} "b" : f32[2, 1]
  %3 = constant() {value=tensor<f32[2] 4, 3>} "gamma" : f32[2]
  %4 = constant() {value=tensor<f32[2] 1, 0.5>} "beta" : f32[2]
  %5 = constant() {value=tensor<f32[2] 1, 5>} "mean" : f32[2]
  %6 = constant() {value=tensor<f32[2] 3, 8>} "variance" : f32[2]
  %7 = conv(%0, %1) "conv" : f32[1, 2, 2] block="A"
  %8 = add(%7, %2) "conv/add" : f32[1, 2, 2] block="A"
  %9 = batch_norm_inference(%8, %3, %4, %5, %6) {epsilon=1.0} "norm" : f32[1, 2, 2] block="B"
  output "y" = %9
})";

/// scale = gamma / sqrt(variance + 1) = 2, 1; weight 1 * 2, 2 * 1; bias beta + (b - mean) * scale =
/// 1 + 2 * 2, 0.5 - 1. What nothing reads any more is left to the pass that removes it.
TEST(FoldBatchNorm, ScalesTheWeightAndMovesTheBiasToTheBlockOfTheNorm) {
  ir::Graph graph = parseGraph(kHandNorm);
  EXPECT_TRUE(foldBatchNorm(graph));
  ir::verify(graph);
  EXPECT_TRUE(ir::structurallyEqual(graph, parseGraph(R"(graph "g" {
  %0 = input() "x" : f32[1, 1, 2]
  %1 = constant() {value=tensor<f32[2, 1, 1] 1, 2>} "w" : f32[2, 1, 1] block="A"
  %2 = constant() {value=tensor<f32[2, 1] 3, 4>} "b" : f32[2, 1]
  %3 = constant() {value=tensor<f32[2] 4, 3>} "gamma" : f32[2]
  %4 = constant() {value=tensor<f32[2] 1, 0.5>} "beta" : f32[2]
  %5 = constant() {value=tensor<f32[2] 1, 5>} "mean" : f32[2]
  %6 = constant() {value=tensor<f32[2] 3, 8>} "variance" : f32[2]
  %7 = constant() {value=tensor<f32[2, 1, 1] 2, 2>} "w" : f32[2, 1, 1] block="A"
  %8 = conv(%0, %7) "conv" : f32[1, 2, 2] block="A"
  %9 = constant() {value=tensor<f32[2, 1] 5, -0.5>} "beta" : f32[2, 1] block="B"
  %10 = add(%8, %9) "norm" : f32[1, 2, 2] block="B"
  output "y" = %10
})"))) << print(graph);
  EXPECT_FALSE(foldBatchNorm(graph));
}

/// A product, and the shapes of its operands.
struct FoldCase {
  std::string name;
  Shape x;
  Shape w;
  std::function<Value(GraphBuilder&, Value x, Value w)> product;
};

std::vector<FoldCase> foldCases() {
  const auto conv = [](ops::ConvOptions options) {
    return [options](GraphBuilder& b, Value x, Value w) { return ops::conv(b, x, w, options); };
  };
  const auto transposed = [](Shape result, ops::ConvOptions options) {
    return [=](GraphBuilder& b, Value x, Value w) {
      return ops::convGradInput(b, w, x, result, options);
    };
  };
  return {
      {"1d", {2, 3, 9}, {4, 3, 3}, conv({.strides = {2}, .pads = {1, 1}, .dilations = {1}})},
      {"2d", {2, 3, 6, 5}, {4, 3, 3, 3}, conv({.pads = {1, 1, 1, 1}})},
      {"3d", {1, 2, 4, 4, 3}, {3, 2, 2, 2, 2}, conv({})},
      {"groups", {2, 4, 5, 5}, {6, 2, 3, 3}, conv({.groups = 2})},
      {"depthwise", {2, 4, 5, 5}, {4, 1, 3, 3}, conv({.pads = {1, 1, 1, 1}, .groups = 4})},
      {"transposed1d", {2, 4, 5}, {4, 3, 3}, transposed({2, 3, 11}, {.strides = {2}})},
      {"transposed2d", {1, 4, 3, 3}, {4, 2, 2, 2}, transposed({1, 2, 4, 4}, {})},
      {"transposedGroups", {1, 6, 3, 3}, {6, 2, 3, 3}, transposed({1, 4, 5, 5}, {.groups = 2})},
      {"product",
       {3, 5},
       {5, 4},
       [](GraphBuilder& b, Value x, Value w) { return ops::matmul(b, x, w); }},
      {"linear",
       {3, 5},
       {4, 5},
       [](GraphBuilder& b, Value x, Value w) {
         return ops::matmul(b, x, w, {.transposeB = true});
       }},
  };
}

HostTensor foldNumbers(const std::string& name, DType dtype, const Shape& shape, double low = -2) {
  const HostTensor wide = ir::initialValue(
      {name, {DType::F64, shape}, ir::VariableRole::Buffer, true, ir::Initializer::uniform(low, 2)},
      7);
  return cast(wide, dtype);
}

enum class Bias : std::uint8_t { None, Left, Right };

/// The product, its bias and its norm, with constants of `dtype` in the graph's type.
ir::Graph normed(const FoldCase& c, DType dtype, DType graphType, Bias bias = Bias::Right) {
  ir::Graph graph("g");
  GraphBuilder b(graph);
  const auto constant = [&](const std::string& name, DType given, const Shape& shape, double low) {
    const DType wanted = graphType == dtype ? given : graphType;
    return b.constant(cast(foldNumbers(name, given, shape, low), wanted));
  };
  const Value x = b.input("x", {graphType, c.x});
  Value y = c.product(b, x, constant("w", dtype, c.w, -2));
  const std::int64_t channels = b.shape(y)[1];
  if (bias != Bias::None) {
    const Value offset = constant("b", dtype, ops::channelShape(channels, b.shape(y).rank()), -2);
    y = bias == Bias::Right ? ops::add(b, y, offset) : ops::add(b, offset, y);
  }
  const DType statistics = dtype == DType::F64 ? dtype : DType::F32;
  const Shape per{channels};
  const ops::BatchNormInputs inputs = {.gamma = constant("gamma", dtype, per, -2),
                                       .beta = constant("beta", dtype, per, -2),
                                       .mean = constant("mean", statistics, per, -2),
                                       .variance = constant("variance", statistics, per, 0.25)};
  graph.addOutput("y", ops::batchNormInference(b, y, inputs));
  return graph;
}

std::size_t normsOf(const ir::Graph& graph) {
  return static_cast<std::size_t>(std::ranges::count_if(
      graph.order(), [&](ir::OpId id) { return graph.op(id).is(ops::kBatchNormInference); }));
}

std::vector<double> evaluated(const ir::Graph& graph, const HostTensor& x) {
  ops::TensorMap variables;
  return ops::evaluate(graph, {{"x", x}}, variables).at("y").toDoubles();
}

double largest(const std::vector<double>& numbers) {
  double most = 0;
  for (const double number : numbers) {
    most = std::max(most, std::abs(number));
  }
  return most;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

/// Of the largest result: float64 shows that the numbers are right, the others how they are
/// rounded. A type with p bits may round weight, product and sum, each by 2^-p of what it is.
double toleranceOf(DType dtype) {
  return dtype == DType::F64   ? 1e-14
         : dtype == DType::F32 ? 0x1p-21
         : dtype == DType::F16 ? 0x1p-8
                               : 0x1p-5;
}

TEST(FoldBatchNorm, GivesTheNumbersOfTheNormForEveryProductTypeAndBias) {
  for (const FoldCase& c : foldCases()) {
    for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
      for (const Bias bias : {Bias::None, Bias::Left, Bias::Right}) {
        const ::testing::Message where = ::testing::Message() << c.name << " " << name(dtype);
        const HostTensor x = foldNumbers("x", dtype, c.x);
        const std::vector<double> exact =
            evaluated(normed(c, dtype, DType::F64, bias), cast(x, DType::F64));
        ir::Graph graph = normed(c, dtype, dtype, bias);
        EXPECT_TRUE(foldBatchNorm(graph)) << where;
        ir::verify(graph);
        EXPECT_EQ(normsOf(graph), 0U) << where;
        const std::vector<double> folded = evaluated(graph, x);
        EXPECT_LE(distance(folded, exact), toleranceOf(dtype) * largest(exact)) << where;
      }
    }
  }
}

TEST(FoldBatchNorm, ReadsConstantsThroughCastsAndOtherForms) {
  ir::Graph graph("g");
  GraphBuilder b(graph);
  const Value x = b.input("x", {DType::F32, Shape{2, 3}});
  const Value w = ops::transpose(b, b.constant(foldNumbers("w", DType::F32, {4, 3})), {1, 0});
  const Value one = b.constant(HostTensor::full({DType::F64, Shape{4}}, 1));
  const Value ones = ops::cast(b, one, DType::F32);
  const Value y = ops::matmul(b, x, w);
  graph.addOutput("y", ops::batchNormInference(b, y, {ones, ones, ones, ones}));
  const ir::Graph before = graph;
  EXPECT_TRUE(foldBatchNorm(graph));
  const HostTensor given = foldNumbers("x", DType::F32, {2, 3});
  EXPECT_LE(distance(evaluated(graph, given), evaluated(before, given)), 1e-5);
}

/// As layers with normed weights and scales around one say them: w v / |v|, 1 + g.
TEST(FoldBatchNorm, ReadsWhatIsComputedFromSeveralConstants) {
  ir::Graph graph("g");
  GraphBuilder b(graph);
  const Value x = b.input("x", {DType::F32, Shape{2, 3}});
  const Value direction = b.constant(foldNumbers("v", DType::F32, {3, 4}));
  const Value length = b.constant(foldNumbers("length", DType::F32, {3, 4}, 0.5));
  const Value weight = ops::div(b, ops::mul(b, direction, direction), length);
  const Value g = b.constant(foldNumbers("g", DType::F32, {4}));
  const Value gamma = ops::add(b, g, b.constant(HostTensor::full({DType::F32, Shape{4}}, 1)));
  const Value ones = b.constant(HostTensor::full({DType::F32, Shape{4}}, 1));
  const Value y = ops::matmul(b, x, weight);
  graph.addOutput("y", ops::batchNormInference(b, y, {gamma, g, ops::mul(b, g, gamma), ones}));
  const ir::Graph before = graph;
  EXPECT_TRUE(foldBatchNorm(graph));
  EXPECT_EQ(normsOf(graph), 0U);
  const HostTensor given = foldNumbers("x", DType::F32, {2, 3});
  EXPECT_LE(distance(evaluated(graph, given), evaluated(before, given)), 1e-5);
}

/// A weight of two convolutions with different norms: each gets its own, and the first one stays.
TEST(FoldBatchNorm, GivesEachReaderOfAWeightItsOwn) {
  ir::Graph graph("g");
  GraphBuilder b(graph);
  const Value x = b.input("x", {DType::F64, Shape{1, 2, 4}});
  const Value w = b.constant(foldNumbers("w", DType::F64, {2, 2, 1}));
  Value sum = ops::conv(b, x, w);
  for (const std::string part : {"first", "second"}) {
    const auto of = [&](const std::string& name, double low) {
      return b.constant(foldNumbers(part + name, DType::F64, {2}, low));
    };
    const Value normed = ops::batchNormInference(
        b, ops::conv(b, x, w), {of("gamma", -2), of("beta", -2), of("mean", -2), of("var", 0.25)});
    sum = ops::add(b, sum, normed);
  }
  graph.addOutput("y", sum);
  const ir::Graph before = graph;
  EXPECT_TRUE(foldBatchNorm(graph));
  EXPECT_EQ(normsOf(graph), 0U);
  const HostTensor given = foldNumbers("x", DType::F64, {1, 2, 4});
  EXPECT_LE(distance(evaluated(graph, given), evaluated(before, given)), 1e-14);
}

const FoldCase& simpleCase() {
  static const FoldCase kCase = {"1d", {2, 3, 9}, {4, 3, 3}, [](GraphBuilder& b, Value x, Value w) {
                                   return ops::conv(b, x, w);
                                 }};
  return kCase;
}

TEST(FoldBatchNorm, LeavesWhatIsAlsoReadElsewhere) {
  for (const ir::OpDef* def : {&ops::kConv, &ops::kAdd}) {
    for (const bool returned : {true, false}) {
      ir::Graph graph = normed(simpleCase(), DType::F32, DType::F32);
      const auto inner =
          std::ranges::find_if(graph.order(), [&](ir::OpId id) { return graph.op(id).is(*def); });
      const Value value = graph.op(*inner).out();
      GraphBuilder b(graph);
      graph.addOutput("inner", returned ? value : ops::neg(b, value));
      EXPECT_FALSE(foldBatchNorm(graph)) << def->name << returned;
    }
  }
}

TEST(FoldBatchNorm, LeavesWhatIsNoConstant) {
  const ir::Graph constant = normed(simpleCase(), DType::F32, DType::F32);
  std::size_t seen = 0;
  for (const ir::OpId id : std::vector(constant.order().begin(), constant.order().end())) {
    if (!constant.op(id).is(ir::kConstant)) {
      continue;
    }
    ir::Graph graph = constant;
    graph.addVariable({.name = "v", .type = graph.op(id).outputs[0]});
    const ir::OpId read = graph.insertBefore(id,
                                             {.def = ir::kVariable,
                                              .attrs = {{"var", std::string("v")}},
                                              .types = {graph.op(id).outputs[0]}});
    graph.replaceUses({{graph.op(id).out(), graph.op(read).out()}});
    EXPECT_FALSE(foldBatchNorm(graph)) << ++seen;
  }
}

TEST(FoldBatchNorm, LeavesProductsWhoseChannelsAreNotOnAxisOne) {
  const FoldCase batched = {"batched", {2, 4, 3}, {3, 5}, [](GraphBuilder& b, Value x, Value w) {
                              return ops::matmul(b, x, w);
                            }};
  ir::Graph graph = normed(batched, DType::F32, DType::F32, Bias::None);
  EXPECT_FALSE(foldBatchNorm(graph));
  FoldCase whole = simpleCase();
  whole.product = [](GraphBuilder& b, Value x, Value w) {
    const Value y = ops::conv(b, x, w);
    return ops::add(b, y, b.constant(HostTensor::full(b.type(y), 1)));  // no number per channel
  };
  graph = normed(whole, DType::F32, DType::F32, Bias::None);
  EXPECT_FALSE(foldBatchNorm(graph));
}

/// gamma / sqrt(variance) of one channel, in a norm of a product with weights of 1.
bool foldsWith(DType dtype, double gamma, double variance) {
  ir::Graph graph("g");
  GraphBuilder b(graph);
  const Value x = b.input("x", {dtype, Shape{2, 1}});
  const auto one = [&](DType type, double value) {
    return b.constant(HostTensor::full({type, Shape{1}}, value));
  };
  const Value y = ops::matmul(b, x, b.constant(HostTensor::full({dtype, Shape{1, 1}}, 1)));
  graph.addOutput("y",
                  ops::batchNormInference(b,
                                          y,
                                          {.gamma = one(dtype, gamma),
                                           .beta = one(dtype, 0),
                                           .mean = one(DType::F32, 0),
                                           .variance = one(DType::F32, variance)},
                                          0));
  return foldBatchNorm(graph);
}

TEST(FoldBatchNorm, LeavesNormsWhoseWeightsWouldNotFitTheirType) {
  EXPECT_TRUE(foldsWith(DType::F16, 1, 4));
  EXPECT_TRUE(foldsWith(DType::F16, 0, 4)) << "a channel that is off";
  EXPECT_FALSE(foldsWith(DType::F16, 1, 1e-12)) << "above 65504";
  EXPECT_FALSE(foldsWith(DType::F16, 1, 1e10)) << "subnormal";
  EXPECT_TRUE(foldsWith(DType::BF16, 1, 1e10));
  EXPECT_FALSE(foldsWith(DType::F32, 1, 0)) << "infinite";
  EXPECT_FALSE(foldsWith(DType::F32, 1, -1)) << "not a number";
}

/// 1 + 2^-8 is half way between two bfloat16; gamma times it is a little more, by less than a
/// float32 holds, and must round up.
TEST(FoldBatchNorm, RoundsSixteenBitsOnce) {
  ir::Graph graph("g");
  GraphBuilder b(graph);
  const Value x = b.input("x", {DType::BF16, Shape{1, 1}});
  const Value w = b.constant(HostTensor::full({DType::BF16, Shape{1, 1}}, 1));
  const Value zero = b.constant(HostTensor::full({DType::F32, Shape{1}}, 0));
  const Value one = b.constant(HostTensor::full({DType::BF16, Shape{1}}, 1));
  const Value none = b.constant(HostTensor::full({DType::BF16, Shape{1}}, 0));
  const double scale = 1 + 0x1p-8 + 0x1p-40;
  graph.addOutput("y",
                  ops::batchNormInference(
                      b, ops::matmul(b, x, w), {one, none, zero, zero}, 1 / (scale * scale)));
  EXPECT_TRUE(foldBatchNorm(graph));
  EXPECT_EQ(evaluated(graph, HostTensor::full({DType::BF16, Shape{1, 1}}, 1)),
            std::vector<double>{1 + 0x1p-7});
}

}  // namespace
}  // namespace sluice::transforms
