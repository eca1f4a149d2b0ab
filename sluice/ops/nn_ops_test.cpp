// Hand-computed values of the network ops: windows, softmax, normalizations, losses, attention.
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {
namespace {

using Doubles = std::vector<double>;

HostTensor f32(Shape shape, const std::vector<float>& values) {
  return HostTensor::of<float>(std::move(shape), std::span<const float>(values));
}

/// 1, 2, 3 ...
HostTensor counting(Shape shape) {
  HostTensor tensor(DType::F32, std::move(shape));
  std::iota(tensor.data<float>().begin(), tensor.data<float>().end(), 1.0F);
  return tensor;
}

/// Small whole numbers in no simple pattern, so that sums of products are exact.
HostTensor smallIntegers(Shape shape, std::int64_t seed) {
  HostTensor tensor(DType::F32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    tensor.set(i, static_cast<double>((i * i * 7 + i * 3 + seed * 5) % 9 - 4));
  }
  return tensor;
}

HostTensor run(const ir::OpDef& def,
               const std::vector<HostTensor>& inputs,
               const ir::Attrs& attrs = {}) {
  return evaluate(def, attrs, inputs)[0];
}

void expectNear(const HostTensor& actual, const Doubles& expected, double tolerance = 1e-6) {
  ASSERT_EQ(actual.shape().elements(), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual.at(static_cast<std::int64_t>(i)), expected[i], tolerance) << "element " << i;
  }
}

double dot(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double sum = 0;
  for (std::int64_t i = 0; i < a.shape().elements(); ++i) {
    sum += a.at(i) * b.at(i);
  }
  return sum;
}

TEST(Conv, PadsBeforeAndAfterDiffer) {
  // Rows 1 2 / 3 4 padded by one row above and one column behind, kernel of ones.
  const HostTensor y = run(
      kConv, {counting({1, 1, 2, 2}), f32({1, 1, 2, 2}, {1, 1, 1, 1})}, {{"pads", {1, 0, 0, 1}}});
  EXPECT_EQ(y.shape(), (Shape{1, 1, 2, 2}));
  EXPECT_EQ(y.toDoubles(), (Doubles{3, 2, 10, 6}));
}

TEST(Conv, DilationAndStrideSkipElements) {
  // Taps two apart, windows start at 0 and 3: 1 + 10*3 + 100*5, 4 + 10*6 + 100*8.
  const HostTensor y = run(kConv,
                           {counting({1, 1, 8}), f32({1, 1, 3}, {1, 10, 100})},
                           {{"strides", {3}}, {"dilations", {2}}});
  EXPECT_EQ(y.toDoubles(), (Doubles{531, 864}));
}

TEST(Conv, GroupsSeeOnlyTheirOwnChannels) {
  // Four channels with one element each, two groups, three outputs per group.
  const HostTensor y = run(kConv, {counting({1, 4, 1}), counting({6, 2, 1})}, {{"groups", 2}});
  EXPECT_EQ(y.toDoubles(), (Doubles{5, 11, 17, 53, 67, 81}));
}

TEST(Conv, ThreeSpatialAxes) {
  const HostTensor y = run(kConv, {counting({1, 1, 2, 2, 2}), counting({1, 1, 2, 1, 2})});
  // Window at h: x[d][h][w] times 1 2 3 4 over (d, w).
  EXPECT_EQ(y.shape(), (Shape{1, 1, 1, 2, 1}));
  EXPECT_EQ(y.toDoubles(), (Doubles{1 + 4 + 15 + 24, 3 + 8 + 21 + 32}));
}

TEST(Conv, GradientOpsAreItsAdjoints) {
  const ir::Attrs attrs = {
      {"strides", {2, 1}}, {"pads", {1, 0, 2, 1}}, {"dilations", {1, 2}}, {"groups", 2}};
  const HostTensor x = smallIntegers({2, 4, 7, 6}, 1);
  const HostTensor w = smallIntegers({6, 2, 3, 2}, 2);
  const HostTensor y = run(kConv, {x, w}, attrs);
  const HostTensor dy = smallIntegers(y.shape(), 3);
  ir::Attrs inputAttrs = attrs;
  inputAttrs.set({"inputShape", x.shape().dims()});
  ir::Attrs weightAttrs = attrs;
  weightAttrs.set({"weightShape", w.shape().dims()});
  const double product = dot(y, dy);
  EXPECT_NE(product, 0.0);
  EXPECT_EQ(product, dot(x, run(kConvGradInput, {w, dy}, inputAttrs)));
  EXPECT_EQ(product, dot(w, run(kConvGradWeight, {x, dy}, weightAttrs)));
}

TEST(Conv, EmptyBatchGivesAZeroWeightGradient) {
  const HostTensor dw = run(kConvGradWeight,
                            {HostTensor(DType::F32, {0, 1, 3}), HostTensor(DType::F32, {0, 1, 2})},
                            {{"weightShape", {1, 1, 2}}});
  EXPECT_EQ(dw.toDoubles(), (Doubles{0, 0}));
}

TEST(MaxPool, FirstOfEqualsWins) {
  const std::vector<HostTensor> out =
      evaluate(kMaxPool, {{"kernel", {3}}}, {f32({1, 1, 5}, {2, 7, 7, 1, 7})});
  EXPECT_EQ(out[0].toDoubles(), (Doubles{7, 7, 7}));
  EXPECT_EQ(out[1].dtype(), DType::U8);
  EXPECT_EQ(out[1].toDoubles(), (Doubles{1, 0, 0}));
}

TEST(MaxPool, PaddingNeverWins) {
  const std::vector<HostTensor> out =
      evaluate(kMaxPool, {{"kernel", {2}}, {"pads", {1, 1}}}, {f32({1, 1, 2}, {-5, -3})});
  EXPECT_EQ(out[0].toDoubles(), (Doubles{-5, -3, -3}));
  EXPECT_EQ(out[1].toDoubles(), (Doubles{1, 1, 0}));
}

TEST(MaxPool, MinusInfinityBeatsPadding) {
  const float low = -std::numeric_limits<float>::infinity();
  const std::vector<HostTensor> out =
      evaluate(kMaxPool, {{"kernel", {2}}, {"pads", {1, 0}}}, {f32({1, 1, 1}, {low})});
  EXPECT_EQ(out[1].toDoubles(), (Doubles{1}));
}

TEST(MaxPool, NanPropagates) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<HostTensor> out =
      evaluate(kMaxPool, {{"kernel", {2}}}, {f32({1, 1, 4}, {1, nan, 9, 2})});
  EXPECT_TRUE(std::isnan(out[0].at(0)));
  EXPECT_TRUE(std::isnan(out[0].at(1)));
  EXPECT_EQ(out[0].at(2), 9);
  EXPECT_EQ(out[1].toDoubles(), (Doubles{1, 0, 0}));
}

TEST(MaxPool, CeilModeKeepsAPartialWindowOnlyIfItStartsInside) {
  const ir::Attrs attrs = {{"kernel", {2}}, {"strides", {2}}, {"ceilMode", true}};
  EXPECT_EQ(run(kMaxPool, {counting({1, 1, 5})}, attrs).toDoubles(), (Doubles{2, 4, 5}));
  // The window after the last would start in the padding behind the input.
  const HostTensor y =
      run(kMaxPool,
          {counting({1, 1, 4})},
          {{"kernel", {2}}, {"strides", {2}}, {"pads", {0, 1}}, {"ceilMode", true}});
  EXPECT_EQ(y.toDoubles(), (Doubles{2, 4}));
}

TEST(MaxPool, WideWindowsHaveWideIndices) {
  const std::vector<HostTensor> out =
      evaluate(kMaxPool, {{"kernel", {300}}}, {counting({1, 1, 300})});
  EXPECT_EQ(out[1].dtype(), DType::I32);
  EXPECT_EQ(out[1].toDoubles(), (Doubles{299}));
  EXPECT_EQ(evaluate(kMaxPool, {{"kernel", {256}}}, {counting({1, 1, 256})})[1].toDoubles(),
            (Doubles{255}));
}

TEST(MaxPoolGrad, AddsWhereWindowsShareAWinner) {
  const HostTensor indices = HostTensor::of<std::uint8_t>({1, 1, 3}, {1, 0, 1});
  const HostTensor dx = run(kMaxPoolGrad,
                            {indices, f32({1, 1, 3}, {1, 10, 100})},
                            {{"kernel", {2}}, {"inputShape", {1, 1, 4}}});
  EXPECT_EQ(dx.toDoubles(), (Doubles{0, 11, 0, 100}));
}

TEST(AvgPool, PaddingCountsOnlyWhenAsked) {
  const HostTensor x = f32({1, 1, 3}, {2, 4, 6});
  const ir::Attrs apart = {{"kernel", {2}}, {"pads", {1, 1}}};
  EXPECT_EQ(run(kAvgPool, {x}, apart).toDoubles(), (Doubles{2, 3, 5, 6}));
  ir::Attrs together = apart;
  together.set({"countIncludePad", true});
  EXPECT_EQ(run(kAvgPool, {x}, together).toDoubles(), (Doubles{1, 3, 5, 3}));
}

TEST(AvgPool, CeilModeDividesByWhatLiesInsideThePaddedInput) {
  const ir::Attrs attrs = {
      {"kernel", {3}}, {"strides", {2}}, {"ceilMode", true}, {"countIncludePad", true}};
  EXPECT_EQ(run(kAvgPool, {f32({1, 1, 4}, {3, 3, 3, 5})}, attrs).toDoubles(), (Doubles{3, 4}));
}

TEST(AvgPool, GradientIsItsAdjoint) {
  ir::Attrs attrs = {{"kernel", {2, 2}}, {"pads", {1, 0, 0, 1}}, {"countIncludePad", true}};
  const HostTensor x = smallIntegers({2, 2, 4, 3}, 4);
  const HostTensor y = run(kAvgPool, {x}, attrs);
  const HostTensor dy = smallIntegers(y.shape(), 5);
  attrs.set({"inputShape", x.shape().dims()});
  EXPECT_EQ(dot(y, dy), dot(x, run(kAvgPoolGrad, {dy}, attrs)));
}

TEST(GlobalAvgPool, IsTheMeanOfEachMap) {
  ir::Graph graph("pool");
  GraphBuilder b(graph);
  graph.addOutput("y", globalAvgPool(b, b.input("x", {DType::F32, {1, 2, 2, 2}})));
  TensorMap none;
  const TensorMap out = evaluate(graph, {{"x", counting({1, 2, 2, 2})}}, none);
  EXPECT_EQ(out.at("y").shape(), (Shape{1, 2, 1, 1}));
  EXPECT_EQ(out.at("y").toDoubles(), (Doubles{2.5, 6.5}));
}

TEST(Softmax, LargeInputsDoNotOverflow) {
  expectNear(run(kSoftmax, {f32({2}, {1e30F, 1e30F})}), {0.5, 0.5});
  expectNear(run(kLogSoftmax, {f32({2}, {1000, 0})}), {0, -1000});
  const float e = std::log(3.0F);
  expectNear(run(kSoftmax, {f32({2, 2}, {0, 0, e, 0})}, {{"axis", 0}}), {0.25, 0.5, 0.75, 0.5});
}

TEST(LayerNorm, ReturnsMeanAndReciprocalDeviation) {
  // Mean 3, variance 4.
  const std::vector<HostTensor> out = evaluate(
      kLayerNorm, {{"epsilon", 0.0}}, {f32({1, 2}, {1, 5}), f32({2}, {10, 100}), f32({2}, {1, 2})});
  EXPECT_EQ(out[0].toDoubles(), (Doubles{-9, 102}));
  EXPECT_EQ(out[1].toDoubles(), (Doubles{3}));
  EXPECT_EQ(out[2].toDoubles(), (Doubles{0.5}));
}

TEST(LayerNorm, KeepsStatisticsOfHalvesInFloat32) {
  const std::vector<HostTensor> out = evaluate(kLayerNorm,
                                               {},
                                               {cast(f32({1, 2}, {1, 5}), DType::F16),
                                                cast(f32({2}, {1, 1}), DType::F16),
                                                HostTensor(DType::F16, {2})});
  EXPECT_EQ(out[0].dtype(), DType::F16);
  EXPECT_EQ(out[1].dtype(), DType::F32);
  EXPECT_EQ(out[2].dtype(), DType::F32);
}

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  const std::vector<HostTensor> out =
      evaluate(kRmsNorm, {{"epsilon", 0.0}}, {f32({1, 2}, {1, 7}), f32({2}, {10, 1})});
  expectNear(out[0], {2, 1.4});
  expectNear(out[1], {0.2});
}

TEST(BatchNorm, StatisticsAreBiasedAndPerChannel) {
  const std::vector<HostTensor> out =
      evaluate(kBatchNorm,
               {{"epsilon", 0.0}},
               {f32({2, 2, 2}, {1, 3, 10, 10, 5, 7, 20, 20}), f32({2}, {1, 2}), f32({2}, {0, 1})});
  EXPECT_EQ(out[1].toDoubles(), (Doubles{4, 15}));
  EXPECT_EQ(out[2].toDoubles(), (Doubles{5, 25}));
  const double r = std::sqrt(5.0);
  expectNear(out[0], {-3 / r, -1 / r, -1, -1, 1 / r, 3 / r, 3, 3});
}

TEST(BatchNorm, EmptyBatchHasStatisticsZero) {
  const std::vector<HostTensor> out = evaluate(
      kBatchNorm, {}, {HostTensor(DType::F32, {0, 2, 3}), f32({2}, {1, 1}), f32({2}, {0, 0})});
  EXPECT_EQ(out[1].toDoubles(), (Doubles{0, 0}));
  EXPECT_EQ(out[2].toDoubles(), (Doubles{0, 0}));
}

TEST(BatchNormInference, UsesTheGivenStatistics) {
  const HostTensor y = run(kBatchNormInference,
                           {f32({1, 2, 1}, {5, 1}),
                            f32({2}, {2, 3}),
                            f32({2}, {1, 0}),
                            f32({2}, {1, 4}),
                            f32({2}, {4, 9})},
                           {{"epsilon", 0.0}});
  expectNear(y, {2.0 * 4 / 2 + 1, 3.0 * -3 / 3});
}

TEST(GroupNorm, NormalizesEachGroup) {
  const HostTensor y =
      run(kGroupNorm,
          {f32({1, 4, 1}, {1, 3, 10, 30}), f32({4}, {1, 2, 3, 4}), f32({4}, {0, 0, 0, 5})},
          {{"groups", 2}, {"epsilon", 0.0}});
  expectNear(y, {-1, 2, -3, 9});
}

TEST(NllLoss, ReducesOverLabelsThatAreNotIgnored) {
  const HostTensor logp = f32({3, 2}, {-1, -2, -4, -8, -16, -32});
  const HostTensor labels = HostTensor::of<std::int64_t>({3}, {1, -100, 0});
  EXPECT_EQ(run(kNllLoss, {logp, labels}).toDoubles(), (Doubles{9}));
  EXPECT_EQ(run(kNllLoss, {logp, labels}, {{"reduction", "sum"}}).toDoubles(), (Doubles{18}));
  EXPECT_EQ(run(kNllLoss, {logp, labels}, {{"reduction", "none"}}).toDoubles(),
            (Doubles{2, 0, 16}));
  const HostTensor dlogp = run(kNllLossGrad, {labels, f32({}, {4})}, {{"classes", 2}});
  EXPECT_EQ(dlogp.toDoubles(), (Doubles{0, -2, 0, 0, -2, 0}));
}

TEST(NllLoss, TheMeanOfNoTermsIsNoNumberAndHasNoGradient) {
  const HostTensor labels = HostTensor::of<std::int32_t>({1}, {7});
  const HostTensor x = f32({1, 2}, {-1, -2});
  for (const ir::OpDef* def : {&kNllLoss, &kCrossEntropy}) {
    EXPECT_TRUE(std::isnan(run(*def, {x, labels}, {{"ignoreIndex", 7}}).at(0))) << def->name;
    const ir::Attrs sum = {{"ignoreIndex", 7}, {"reduction", "sum"}};
    EXPECT_EQ(run(*def, {x, labels}, sum).toDoubles(), (Doubles{0})) << def->name;
  }
  const ir::Attrs attrs = {{"ignoreIndex", 7}, {"classes", 2}};
  EXPECT_EQ(run(kNllLossGrad, {labels, f32({}, {4})}, attrs).toDoubles(), (Doubles{0, 0}));
  EXPECT_TRUE(std::isnan(
      run(kNllLoss, {HostTensor(DType::F32, {0, 2}), HostTensor(DType::I64, {0})}).at(0)));
}

TEST(PairLosses, TheMeanOfNothingIsNoNumber) {
  const HostTensor none(DType::F32, {0, 2});
  for (const ir::OpDef* def : {&kMseLoss, &kL1Loss, &kBceLoss, &kBceWithLogitsLoss}) {
    EXPECT_TRUE(std::isnan(run(*def, {none, none}).at(0))) << def->name;
    EXPECT_EQ(run(*def, {none, none}, {{"reduction", "sum"}}).toDoubles(), (Doubles{0}))
        << def->name;
  }
}

TEST(NllLoss, ClassesAreAxisOne) {
  // One item, two classes, two positions.
  const HostTensor loss =
      run(kNllLoss,
          {f32({1, 2, 2}, {-1, -2, -3, -4}), HostTensor::of<std::int64_t>({1, 2}, {1, 0})},
          {{"reduction", "none"}});
  EXPECT_EQ(loss.toDoubles(), (Doubles{3, 2}));
}

TEST(CrossEntropy, SmoothingSpreadsTheTarget) {
  // Probabilities 1/4 and 3/4; smoothing 0.2 makes the targets 0.9 and 0.1.
  const HostTensor logits = f32({1, 2}, {0, std::log(3.0F)});
  const HostTensor labels = HostTensor::of<std::int64_t>({1}, {0});
  expectNear(run(kCrossEntropy, {logits, labels}), {-std::log(0.25)});
  expectNear(run(kCrossEntropy, {logits, labels}, {{"labelSmoothing", 0.2}}),
             {-0.9 * std::log(0.25) - 0.1 * std::log(0.75)});
}

TEST(Losses, HandComputed) {
  const HostTensor x = f32({2}, {1, 4});
  const HostTensor t = f32({2}, {3, 3});
  EXPECT_EQ(run(kL1Loss, {x, t}).toDoubles(), (Doubles{1.5}));
  EXPECT_EQ(run(kMseLoss, {x, t}).toDoubles(), (Doubles{2.5}));
  EXPECT_EQ(run(kMseLoss, {x, t}, {{"reduction", "sum"}}).toDoubles(), (Doubles{5}));
  EXPECT_EQ(run(kMseLoss, {x, t}, {{"reduction", "none"}}).toDoubles(), (Doubles{4, 1}));
  EXPECT_EQ(run(kIdentityLoss, {x}).toDoubles(), (Doubles{2.5}));
  expectNear(run(kBceLoss, {f32({2}, {0.25F, 0.5F}), f32({2}, {1, 0})}),
             {(std::log(4.0) + std::log(2.0)) / 2});
}

TEST(Losses, BceWithLogitsKeepsTheDigitsOfConfidentHits) {
  const HostTensor x = f32({8}, {8, -8, 30, -30, 8, -8, 0, -0.0F});
  const HostTensor t = f32({8}, {1, 0, 1, 0, 0, 1, 1, 0.25F});
  const HostTensor losses = run(kBceWithLogitsLoss, {x, t}, {{"reduction", "none"}});
  for (std::int64_t i = 0; i < 8; ++i) {
    // Both terms are positive, so that in double they are exact enough.
    const double hit = t.at(i) * std::log1p(std::exp(-x.at(i)));
    const double miss = (1.0 - t.at(i)) * std::log1p(std::exp(x.at(i)));
    EXPECT_NEAR(losses.at(i) / (hit + miss), 1.0, 2e-7) << x.at(i) << " " << t.at(i);
  }
}

TEST(Losses, BceIsFiniteForCertainErrors) {
  const HostTensor certain = run(kBceLoss, {f32({2}, {0, 1}), f32({2}, {1, 0})});
  EXPECT_NEAR(certain.at(0), 87.3365, 1e-3);
  const HostTensor logits = run(
      kBceWithLogitsLoss, {f32({3}, {0, 500, -500}), f32({3}, {1, 0, 0})}, {{"reduction", "none"}});
  expectNear(logits, {std::log(2.0), 500, 0});
}

TEST(Attention, CausalRowsAverageWhatTheyMaySee) {
  // k = 0 makes all scores equal: row i is the mean of values 0 to i.
  const HostTensor y =
      run(kScaledDotProductAttention,
          {counting({3, 2}), HostTensor(DType::F32, {3, 2}), f32({3, 1}, {3, 9, 30})},
          {{"causal", true}});
  expectNear(y, {3, 6, 14});
}

TEST(Attention, ScalesAndMasksTheScores) {
  // Scores log(3) and 0 after scaling by 2: weights 3/4 and 1/4.
  const float s = std::log(3.0F) / 2;
  const HostTensor q = f32({1, 1}, {1});
  const HostTensor k = f32({2, 1}, {s, 0});
  const HostTensor v = f32({2, 1}, {4, 8});
  expectNear(run(kScaledDotProductAttention, {q, k, v}, {{"scale", 2.0}}), {5});
  const HostTensor keep = HostTensor::of<bool>({1, 2}, {false, true});
  expectNear(run(kScaledDotProductAttention, {q, k, v, keep}), {8});
  const HostTensor nothing = HostTensor::of<bool>({1, 2}, {false, false});
  expectNear(run(kScaledDotProductAttention, {q, k, v, nothing}), {6});
  const HostTensor bias = f32({1, 2}, {-s, std::log(3.0F)});
  expectNear(run(kScaledDotProductAttention, {q, k, v, bias}), {7});
}

}  // namespace
}  // namespace sluice::ops
