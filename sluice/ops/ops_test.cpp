// Hand-computed values of the ops whose meaning is easy to get wrong. Gradients are checked by the
// conformance suite.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

HostTensor run(const ir::OpDef& def, const std::vector<HostTensor>& inputs, ir::Attrs attrs = {}) {
  return evaluate(def, attrs, inputs)[0];
}

std::vector<double> values(const ir::OpDef& def,
                           const std::vector<HostTensor>& inputs,
                           ir::Attrs attrs = {}) {
  return run(def, inputs, std::move(attrs)).toDoubles();
}

HostTensor row(const std::vector<double>& numbers) {
  return HostTensor::of<double>(Shape{static_cast<std::int64_t>(numbers.size())},
                                std::span<const double>(numbers));
}

HostTensor ints(const std::vector<std::int64_t>& numbers) {
  return HostTensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(numbers.size())},
                                      std::span<const std::int64_t>(numbers));
}

/// 0, 1, 2 ... of a shape.
HostTensor counting(const Shape& shape) {
  HostTensor tensor(DType::F32, shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    tensor.set(i, static_cast<double>(i));
  }
  return tensor;
}

/// The gradients of one op with respect to its inputs for an output gradient.
std::vector<HostTensor> gradients(const ir::OpDef& def,
                                  const std::vector<HostTensor>& inputs,
                                  const ir::Attrs& attrs,
                                  const HostTensor& outputGrad,
                                  ir::RunInfo info = {}) {
  ir::Graph graph("gradients");
  GraphBuilder b(graph);
  std::vector<Value> operands;
  for (const HostTensor& tensor : inputs) {
    operands.push_back(b.constant(tensor));
  }
  const std::vector<Value> outputs = b.addMany(def, operands, attrs);
  const ir::Op op = graph.op(outputs[0].op);
  const std::vector<TensorType> types = graph.inputTypes(op);
  const std::vector<Value> outputGrads = {b.constant(outputGrad)};
  ir::GradContext context(b, ir::view(op, types), operands, outputs, outputGrads, ~0ULL);
  const std::vector<Value> grads = def.grad(context);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].valid()) {
      graph.addOutput(std::to_string(i), grads[i]);
    }
  }
  TensorMap none;
  std::vector<HostTensor> result;
  for (auto& [name, tensor] : evaluate(graph, {}, none, info)) {
    result.push_back(tensor);
  }
  return result;
}

TEST(Round, TakesHalvesToTheEvenNeighbour) {
  EXPECT_THAT(values(kRound, {row({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, 2.6})}),
              ElementsAre(-2, -2, 0, 0, 2, 2, 2, 3));
}

TEST(Div, TruncatesIntegersAndGivesZeroForDivisionByZero) {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::lowest();
  const HostTensor quotient =
      run(kDiv, {ints({7, -7, 7, -7, 5, kLowest}), ints({2, 2, -2, -2, 0, -1})});
  EXPECT_THAT(quotient.data<std::int64_t>(), ElementsAre(3, -3, -3, 3, 0, kLowest));
  EXPECT_THAT(values(kDiv, {row({1, -1}), row({0, 0})}), ElementsAre(kInf, -kInf));
}

TEST(Pow, OfIntegersIsExactAndNegativePowersVanish) {
  EXPECT_THAT(values(kPow, {ints({3, -2, 0, 2, -1, -1, 1}), ints({4, 5, 0, -1, -3, -2, -9})}),
              ElementsAre(81, -32, 1, 0, -1, 1, 1));
  EXPECT_EQ(run(kPow, {ints({3}), ints({39})}).data<std::int64_t>()[0], 4052555153018976267);
}

TEST(Pow, HasAFiniteGradientAtABaseOfZero) {
  const auto grads = gradients(kPow, {row({0, 0, -2}), row({0, 2, 3})}, {}, row({1, 1, 1}));
  EXPECT_THAT(grads[0].toDoubles(), ElementsAre(0, 0, 12));
  EXPECT_THAT(grads[1].toDoubles(), ElementsAre(0, 0, 0));
}

TEST(Maximum, PassesNanOnAndGivesTiesToTheFirst) {
  const auto largest = values(kMaximum, {row({1, kNan, 3}), row({2, 0, kNan})});
  EXPECT_EQ(largest[0], 2);
  EXPECT_TRUE(std::isnan(largest[1]) && std::isnan(largest[2]));
  for (const ir::OpDef* def : {&kMaximum, &kMinimum}) {
    const auto grads = gradients(*def, {row({1}), row({1})}, {}, row({5}));
    EXPECT_EQ(grads[0].at(0), 5);
    EXPECT_EQ(grads[1].at(0), 0);
  }
}

TEST(Comparisons, AreFalseForNanExceptNotEqual) {
  const std::vector<HostTensor> operands = {row({kNan, 1, 2}), row({kNan, 2, 2})};
  EXPECT_THAT(values(kEqual, operands), ElementsAre(0, 0, 1));
  EXPECT_THAT(values(kNotEqual, operands), ElementsAre(1, 1, 0));
  EXPECT_THAT(values(kLess, operands), ElementsAre(0, 1, 0));
  EXPECT_THAT(values(kLessEqual, operands), ElementsAre(0, 1, 1));
  EXPECT_THAT(values(kGreater, operands), ElementsAre(0, 0, 0));
  EXPECT_THAT(values(kGreaterEqual, operands), ElementsAre(0, 0, 1));
  EXPECT_EQ(run(kEqual, operands).dtype(), DType::Bool);
}

TEST(Logic, FollowsItsTruthTables) {
  const HostTensor x = HostTensor::of<bool>({4}, {false, false, true, true});
  const HostTensor y = HostTensor::of<bool>({4}, {false, true, false, true});
  EXPECT_THAT(values(kLogicalAnd, {x, y}), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(values(kLogicalOr, {x, y}), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(values(kLogicalXor, {x, y}), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(values(kLogicalNot, {x}), ElementsAre(1, 1, 0, 0));
}

TEST(Unary, MeetsKnownValues) {
  EXPECT_THAT(values(kSign, {row({-3, 0, 2})}), ElementsAre(-1, 0, 1));
  EXPECT_THAT(values(kSign, {ints({-3, 0, 2})}), ElementsAre(-1, 0, 1));
  EXPECT_THAT(values(kAbs, {ints({-3, 0, 2})}), ElementsAre(3, 0, 2));
  EXPECT_THAT(values(kFloor, {row({-1.5, 1.5})}), ElementsAre(-2, 1));
  EXPECT_THAT(values(kCeil, {row({-1.5, 1.5})}), ElementsAre(-1, 2));
  EXPECT_THAT(values(kSqrt, {row({0, 2.25})}), ElementsAre(0, 1.5));
  EXPECT_THAT(values(kRsqrt, {row({4})}), ElementsAre(0.5));
  EXPECT_THAT(values(kReciprocal, {row({-4})}), ElementsAre(-0.25));
  EXPECT_THAT(values(kSquare, {ints({-3})}), ElementsAre(9));
  EXPECT_THAT(values(kIsNan, {row({kNan, kInf, 0})}), ElementsAre(1, 0, 0));
  EXPECT_THAT(values(kExpm1, {row({1e-20})}), ElementsAre(1e-20));
  EXPECT_THAT(values(kLog1p, {row({1e-20})}), ElementsAre(1e-20));
  EXPECT_NEAR(values(kErf, {row({1})})[0], 0.8427007929497149, 1e-15);
  EXPECT_NEAR(values(kErfc, {row({-1})})[0], 1.8427007929497149, 1e-15);
  EXPECT_NEAR(values(kErfc, {row({10})})[0] / 2.0884875837625447e-45, 1.0, 1e-13);
}

TEST(Activations, MeetKnownValues) {
  EXPECT_THAT(values(kRelu, {row({-1, 0, 2})}), ElementsAre(0, 0, 2));
  EXPECT_TRUE(std::isnan(values(kRelu, {row({kNan})})[0]));
  EXPECT_THAT(values(kReluGrad, {row({0, 3, -1}), row({7, 8, 9})}), ElementsAre(0, 8, 0));
  EXPECT_THAT(values(kLeakyRelu, {row({-2, 3})}, {{"alpha", 0.25}}), ElementsAre(-0.5, 3));
  EXPECT_NEAR(values(kElu, {row({-1})}, {{"alpha", 2.0}})[0], -1.2642411176571153, 1e-15);
  EXPECT_NEAR(values(kGelu, {row({1})})[0], 0.8413447460685429, 1e-15);
  EXPECT_NEAR(values(kGelu, {row({1})}, {{"approximate", "tanh"}})[0], 0.8411919906082768, 1e-13);
  EXPECT_NEAR(values(kSilu, {row({1})})[0], 0.7310585786300049, 1e-15);
  EXPECT_THAT(values(kSigmoid, {row({0, -1000, 1000})}), ElementsAre(0.5, 0, 1));
  EXPECT_THAT(values(kSoftplus, {row({1000, -1000})}), ElementsAre(1000, 0));
  EXPECT_NEAR(values(kSoftplus, {row({0})})[0], std::log(2.0), 1e-15);
}

TEST(Clamp, LimitsBothWaysAndKeepsNan) {
  const auto limited = values(kClamp, {row({-9, 0.5, 9, kNan})}, {{"low", -1.0}, {"high", 1.0}});
  EXPECT_EQ(limited[0], -1);
  EXPECT_EQ(limited[1], 0.5);
  EXPECT_EQ(limited[2], 1);
  EXPECT_TRUE(std::isnan(limited[3]));
  EXPECT_THAT(values(kClamp, {ints({-9, 3, 9})}, {{"low", -kInf}, {"high", 5.5}}),
              ElementsAre(-9, 3, 5));
}

TEST(Detach, LetsNoGradientPass) {
  EXPECT_THAT(values(kDetach, {row({1, 2})}), ElementsAre(1, 2));
  EXPECT_THAT(gradients(kDetach, {row({1})}, {}, row({1})), IsEmpty());
}

TEST(Cast, TruncatesAndSaturatesFloats) {
  const HostTensor x = row({-1.7, 1.7, 300, -300, kNan});
  EXPECT_THAT(values(kCast, {x}, {{"dtype", "i8"}}), ElementsAre(-1, 1, 127, -128, 0));
  EXPECT_THAT(values(kCast, {x}, {{"dtype", "u8"}}), ElementsAre(0, 1, 255, 0, 0));
  EXPECT_THAT(values(kCast, {ints({300, 0})}, {{"dtype", "u8"}}), ElementsAre(44, 0));
  EXPECT_THAT(values(kCast, {row({0, 0.5})}, {{"dtype", "bool"}}), ElementsAre(0, 1));
}

TEST(Where, BroadcastsAllThree) {
  const HostTensor condition = HostTensor::of<bool>({2, 1}, {true, false});
  EXPECT_THAT(values(kWhere, {condition, row({1, 2, 3}), row({9})}), ElementsAre(1, 2, 3, 9, 9, 9));
}

TEST(Reductions, OverNothingGiveTheirNeutralElement) {
  const HostTensor nothing(DType::F32, {2, 0});
  const ir::Attrs axes = {{"axes", {1}}};
  EXPECT_THAT(values(kReduceProd, {nothing}, axes), ElementsAre(1, 1));
  EXPECT_THAT(values(kReduceMax, {nothing}, axes), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(values(kReduceMin, {nothing}, axes), ElementsAre(kInf, kInf));
  EXPECT_THAT(values(kReduceLogSumExp, {nothing}, axes), ElementsAre(-kInf, -kInf));
  EXPECT_TRUE(std::isnan(values(kReduceMean, {nothing}, axes)[0]));
  EXPECT_THAT(values(kReduceMax, {HostTensor(DType::I8, {1, 0})}, axes), ElementsAre(-128));
  EXPECT_THAT(values(kReduceMin, {HostTensor(DType::U8, {1, 0})}, axes), ElementsAre(255));
}

TEST(ReduceMax, SharesTheGradientOfEqualMaxima) {
  const auto grads = gradients(kReduceMax,
                               {HostTensor::of<double>({2, 3}, {4, 1, 4, 2, 3, 1})},
                               {{"axes", {1}}},
                               row({6, 7}));
  EXPECT_THAT(grads[0].toDoubles(), ElementsAre(3, 0, 3, 0, 7, 0));
  EXPECT_TRUE(std::isnan(values(kReduceMax, {row({1, kNan, 2})})[0]));
}

TEST(ReduceProd, HasTheRightGradientAtZeros) {
  const auto grads = gradients(kReduceProd,
                               {HostTensor::of<double>({3, 3}, {2, 3, 5, 0, 3, 5, 0, 3, 0})},
                               {{"axes", {1}}},
                               row({1, 2, 1}));
  EXPECT_THAT(grads[0].toDoubles(), ElementsAre(15, 10, 6, 30, 0, 0, 0, 0, 0));
}

TEST(ReduceLogSumExp, NeitherOverflowsNorMeetsInfinityMinusInfinity) {
  EXPECT_NEAR(values(kReduceLogSumExp, {row({1000, 1000})})[0], 1000 + std::log(2.0), 1e-12);
  EXPECT_THAT(values(kReduceLogSumExp, {row({-kInf, -kInf})}), ElementsAre(-kInf));
  EXPECT_THAT(values(kReduceLogSumExp, {row({kInf, 1})}), ElementsAre(kInf));
}

TEST(ArgMax, TakesTheFirstOfEqualElements) {
  const HostTensor x = HostTensor::of<float>({2, 3}, {1, 7, 7, 4, 4, 0});
  EXPECT_THAT(values(kArgMax, {x}, {{"axis", 1}}), ElementsAre(1, 0));
  EXPECT_THAT(values(kArgMax, {x}, {{"axis", 0}}), ElementsAre(1, 0, 0));
  EXPECT_EQ(run(kArgMax, {x}, {{"axis", -1}, {"keepDims", true}}).type().str(), "i64[2, 1]");
  EXPECT_THAT(values(kArgMax, {row({5, kNan, 9})}), ElementsAre(1));
}

TEST(CumSum, CanBeExclusiveAndRunBackwards) {
  const HostTensor x = row({1, 2, 3, 4});
  EXPECT_THAT(values(kCumSum, {x}), ElementsAre(1, 3, 6, 10));
  EXPECT_THAT(values(kCumSum, {x}, {{"exclusive", true}}), ElementsAre(0, 1, 3, 6));
  EXPECT_THAT(values(kCumSum, {x}, {{"reverse", true}}), ElementsAre(10, 9, 7, 4));
  EXPECT_THAT(values(kCumSum, {x}, {{"exclusive", true}, {"reverse", true}}),
              ElementsAre(9, 7, 4, 0));
}

TEST(Slice, ClampsAsNumPyAndRunsBackwards) {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::lowest();
  const HostTensor x = counting({5});
  const auto sliced = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
    return values(kSlice, {x}, {{"starts", {start}}, {"ends", {end}}, {"steps", {step}}});
  };
  EXPECT_THAT(sliced(1, 4, 2), ElementsAre(1, 3));
  EXPECT_THAT(sliced(-2, 99, 1), ElementsAre(3, 4));
  EXPECT_THAT(sliced(-99, -3, 1), ElementsAre(0, 1));
  EXPECT_THAT(sliced(4, kLowest, -2), ElementsAre(4, 2, 0));
  EXPECT_THAT(sliced(3, 0, -1), ElementsAre(3, 2, 1));
  EXPECT_THAT(sliced(3, -1, -1), IsEmpty());
  EXPECT_THAT(sliced(99, -99, kLowest), ElementsAre(4));
  EXPECT_THAT(values(kSliceScatter,
                     {row({7, 8})},
                     {{"shape", {5}}, {"starts", {3}}, {"ends", {0}}, {"steps", {-2}}}),
              ElementsAre(0, 8, 0, 7, 0));
}

TEST(Concat, AndSplitUndoEachOther) {
  const HostTensor a = counting({2, 2});
  const HostTensor b = counting({2, 1});
  const HostTensor joined = run(kConcat, {a, b}, {{"axis", 1}});
  EXPECT_THAT(joined.toDoubles(), ElementsAre(0, 1, 0, 2, 3, 1));
  const auto pieces = evaluate(kSplit, {{"axis", 1}, {"sizes", {2, 1}}}, {joined});
  EXPECT_TRUE(pieces[0].sameBits(a));
  EXPECT_TRUE(pieces[1].sameBits(b));
}

TEST(Pad, HasThreeModes) {
  const HostTensor x = row({1, 2, 3});
  const auto padded = [&](const char* mode) {
    return values(kPad, {x}, {{"before", {2}}, {"after", {1}}, {"mode", mode}, {"value", 9.0}});
  };
  EXPECT_THAT(padded("constant"), ElementsAre(9, 9, 1, 2, 3, 9));
  EXPECT_THAT(padded("reflect"), ElementsAre(3, 2, 1, 2, 3, 2));
  EXPECT_THAT(padded("edge"), ElementsAre(1, 1, 1, 2, 3, 3));
}

TEST(Gather, CountsNegativeIndicesFromTheEnd) {
  const HostTensor x = counting({3, 2});
  EXPECT_THAT(values(kGather, {x, ints({-1, 0})}), ElementsAre(4, 5, 0, 1));
  EXPECT_THAT(values(kGather, {x, HostTensor::of<std::int32_t>({1}, {-2})}, {{"axis", 1}}),
              ElementsAre(0, 2, 4));
}

TEST(ScatterAdd, AddsUpdatesOfTheSameRow) {
  const HostTensor data = HostTensor::of<float>({3}, {100, 200, 300});
  const HostTensor updates = HostTensor::of<float>({4}, {1, 2, 4, 8});
  EXPECT_THAT(values(kScatterAdd, {data, ints({2, 0, -1, 2}), updates}),
              ElementsAre(102, 200, 313));
}

TEST(Tile, RepeatsTheWhole) {
  EXPECT_THAT(values(kTile, {counting({2, 2})}, {{"repeats", {2, 2}}}),
              ElementsAre(0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3));
}

TEST(OneHot, CountsNegativeIndicesFromTheEndAndIgnoresOthers) {
  EXPECT_THAT(values(kOneHot, {ints({1, -1, 3, -4})}, {{"depth", 3}}),
              ElementsAre(0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(values(kOneHot, {ints({1, 0})}, {{"depth", 3}, {"axis", 0}}),
              ElementsAre(0, 1, 1, 0, 0, 0));
}

TEST(Iota, CountsAlongOneAxis) {
  EXPECT_THAT(values(kIota, {}, {{"shape", {2, 3}}, {"axis", 0}}), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(values(kIota, {}, {{"shape", {2, 3}}, {"axis", 1}}), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(Reverse, TurnsTheGivenAxes) {
  const HostTensor x = counting({2, 3});
  EXPECT_THAT(values(kReverse, {x}, {{"axes", {1}}}), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(values(kReverse, {x}), ElementsAre(5, 4, 3, 2, 1, 0));
}

TEST(Trilu, KeepsOneSideOfTheDiagonal) {
  const HostTensor x = HostTensor::full({DType::F32, {3, 3}}, 1);
  EXPECT_THAT(values(kTrilu, {x}), ElementsAre(1, 1, 1, 0, 1, 1, 0, 0, 1));
  EXPECT_THAT(values(kTrilu, {x}, {{"diagonal", 1}}), ElementsAre(0, 1, 1, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(values(kTrilu, {x}, {{"upper", false}, {"diagonal", -1}}),
              ElementsAre(0, 0, 0, 1, 0, 0, 1, 1, 0));
}

TEST(Dropout, KeepsTheRightShareAndScalesIt) {
  const std::int64_t count = 100000;
  const HostTensor ones = HostTensor::full({DType::F32, {count}}, 1);
  std::int64_t kept = 0;
  for (const double x : values(kDropout, {ones}, {{"p", 0.2}, {"ordinal", 5}})) {
    ASSERT_TRUE(x == 0.0 || x == 1.25);
    kept += x != 0.0 ? 1 : 0;
  }
  // Five standard deviations of the binomial distribution.
  EXPECT_NEAR(static_cast<double>(kept), 0.8 * count, 5 * std::sqrt(count * 0.2 * 0.8));
}

TEST(Dropout, GradientDropsTheSameElements) {
  const HostTensor ones = HostTensor::full({DType::F32, {1000}}, 1);
  const ir::Attrs attrs = {{"p", 0.5}, {"ordinal", 5}};
  const ir::RunInfo info{.seed = 42, .microBatch = 3};
  const HostTensor dropped = evaluate(kDropout, attrs, {ones}, info)[0];
  EXPECT_TRUE(gradients(kDropout, {ones}, attrs, ones, info)[0].sameBits(dropped));
  for (const ir::RunInfo& other :
       {ir::RunInfo{.seed = 43, .microBatch = 3}, ir::RunInfo{.seed = 42, .microBatch = 4}}) {
    EXPECT_FALSE(evaluate(kDropout, attrs, {ones}, other)[0].sameBits(dropped));
  }
}

TEST(Random, EveryCallTakesAStreamOfItsOwn) {
  ir::Graph graph("random");
  GraphBuilder b(graph);
  const TensorType type{DType::F32, {8}};
  graph.addOutput("a", randomUniform(b, type));
  graph.addOutput("b", randomUniform(b, type));
  graph.addOutput("c", randomNormal(b, type));
  TensorMap none;
  const TensorMap outputs = evaluate(graph, {}, none);
  EXPECT_FALSE(outputs.at("a").sameBits(outputs.at("b")));
  EXPECT_EQ(b.nextRandomOrdinal(), 3);
  EXPECT_TRUE(evaluate(graph, {}, none).at("c").sameBits(outputs.at("c")));
}

TEST(Random, MeetsItsMeanAndDeviation) {
  const auto moments = [](const std::vector<double>& x) {
    double sum = 0;
    double squares = 0;
    for (const double v : x) {
      sum += v;
      squares += v * v;
    }
    const auto n = static_cast<double>(x.size());
    return std::pair(sum / n, std::sqrt(squares / n - sum / n * (sum / n)));
  };
  const auto uniform = values(
      kRandomUniform, {}, {{"shape", {40000}}, {"low", -1.0}, {"high", 3.0}, {"ordinal", 0}});
  EXPECT_THAT(uniform, ::testing::Each(::testing::AllOf(::testing::Ge(-1), ::testing::Lt(3))));
  EXPECT_NEAR(moments(uniform).first, 1.0, 5 * 1.1547 / 200);
  EXPECT_NEAR(moments(uniform).second, 1.1547, 0.02);  // 4 / sqrt(12)
  const auto normal = values(
      kRandomNormal, {}, {{"shape", {40000}}, {"mean", 2.0}, {"deviation", 0.5}, {"ordinal", 0}});
  EXPECT_NEAR(moments(normal).first, 2.0, 5 * 0.5 / 200);
  EXPECT_NEAR(moments(normal).second, 0.5, 0.01);
  EXPECT_THAT(values(kRandomNormal, {}, {{"shape", {0, 3}}, {"ordinal", 0}}), IsEmpty());
}

TEST(Compositions, ReshapeAndReduceAsTheySay) {
  ir::Graph graph("compositions");
  GraphBuilder b(graph);
  const Value x = b.constant(HostTensor::of<double>({1, 2, 2}, {1, 3, 5, 9}));
  EXPECT_EQ(b.shape(squeeze(b, x)), (Shape{2, 2}));
  EXPECT_EQ(b.shape(squeeze(b, x, {-3})), (Shape{2, 2}));
  EXPECT_EQ(b.shape(unsqueeze(b, x, {0, -1})), (Shape{1, 1, 2, 2, 1}));
  EXPECT_EQ(b.shape(flatten(b, x, 1)), (Shape{1, 4}));
  EXPECT_EQ(b.shape(flatten(b, x, 0, 1)), (Shape{2, 2}));
  EXPECT_EQ(b.shape(flatten(b, b.scalar(DType::F32, 1))), Shape{1});
  EXPECT_EQ(cast(b, x, DType::F64), x);
  graph.addOutput("mean", mean(b, x, {2}));
  graph.addOutput("variance", variance(b, x, {2}, true));
  graph.addOutput("full", full(b, {DType::I32, {2}}, 7));
  TensorMap none;
  const TensorMap outputs = evaluate(graph, {}, none);
  EXPECT_THAT(outputs.at("mean").toDoubles(), ElementsAre(2, 7));
  EXPECT_THAT(outputs.at("variance").toDoubles(), ElementsAre(1, 4));
  EXPECT_THAT(outputs.at("full").toDoubles(), ElementsAre(7, 7));
}

}  // namespace
}  // namespace sluice::ops
