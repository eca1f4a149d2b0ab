#include "sluice/nn/functional.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/layer_run.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The result of f for one input.
template <class F>
HostTensor valueOf(const HostTensor& x, F f) {
  ops::TensorMap none;
  return evaluated(
      {x}, [&](const std::vector<Tensor>& in) { return f(in[0]); }, none);
}

template <class F>
HostTensor valueOf(const HostTensor& x, const HostTensor& y, F f) {
  ops::TensorMap none;
  return evaluated(
      {x, y}, [&](const std::vector<Tensor>& in) { return f(in[0], in[1]); }, none);
}

HostTensor doubleRow(std::initializer_list<double> values) {
  return HostTensor::of<double>(Shape{static_cast<std::int64_t>(values.size())}, values);
}

/// Each element-wise function at 0.5.
TEST(Functional, ElementwiseFunctionsAreTheirNames) {
  const HostTensor x = doubleRow({0.5});
  const auto at = [&](Tensor (*f)(const Tensor&)) { return valueOf(x, f).at(0); };
  EXPECT_NEAR(at(relu), 0.5, 1e-12);
  EXPECT_NEAR(at(silu), 0.5 / (1 + std::exp(-0.5)), 1e-12);
  EXPECT_NEAR(at(tanh), std::tanh(0.5), 1e-12);
  EXPECT_NEAR(at(sigmoid), 1 / (1 + std::exp(-0.5)), 1e-12);
  EXPECT_NEAR(at(exp), std::exp(0.5), 1e-12);
  EXPECT_NEAR(at(log), std::log(0.5), 1e-12);
  EXPECT_NEAR(at(sqrt), std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(at(square), 0.25, 1e-12);
  EXPECT_NEAR(at(abs), 0.5, 1e-12);
  EXPECT_NEAR(at(detach), 0.5, 1e-12);
  EXPECT_NEAR(valueOf(x, [](Tensor t) { return gelu(t); }).at(0),
              0.25 * (1 + std::erf(0.5 / std::sqrt(2.0))),
              1e-12);
  EXPECT_NEAR(valueOf(x, [](Tensor t) { return pow(t, 3.0); }).at(0), 0.125, 1e-12);
  EXPECT_NEAR(valueOf(x, [](Tensor t) { return clamp(t, 0.6, 0.9); }).at(0), 0.6, 1e-12);
  EXPECT_EQ(valueOf(x, [](Tensor t) { return cast(t, DType::F32); }).dtype(), DType::F32);
}

TEST(Functional, ComparisonsSelect) {
  const HostTensor x = doubleRow({1, 2, 3});
  const HostTensor y = doubleRow({3, 2, 1});
  EXPECT_THAT(valueOf(x, y, [](Tensor a, Tensor b) { return where(less(a, b), a, b); }).toDoubles(),
              ElementsAre(1, 2, 1));
  EXPECT_THAT(
      valueOf(x, y, [](Tensor a, Tensor b) { return where(greater(a, b), a, -b); }).toDoubles(),
      ElementsAre(-3, -2, 3));
  EXPECT_THAT(valueOf(x, y, [](Tensor a, Tensor b) { return equal(a, b); }).toDoubles(),
              ElementsAre(0, 1, 0));
}

TEST(Functional, ConstantsKeepTheirOwnCopy) {
  HostTensor value = doubleRow({1, 2});
  const HostTensor y = valueOf(doubleRow({10, 20}), [&](Tensor x) {
    const Tensor c = constant(value);
    value.set(0, 5.0);
    return x + c + scalar(0.5, DType::F64);
  });
  EXPECT_THAT(y.toDoubles(), ElementsAre(11.5, 22.5));
}

TEST(Functional, ReductionsTakeAxes) {
  const HostTensor x = HostTensor::of<double>(Shape{2, 2}, {1, 4, 3, 2});
  EXPECT_THAT(valueOf(x, [](Tensor t) { return sum(t); }).toDoubles(), ElementsAre(10));
  EXPECT_THAT(valueOf(x, [](Tensor t) { return mean(t, {0}); }).toDoubles(), ElementsAre(2, 3));
  EXPECT_THAT(valueOf(x, [](Tensor t) { return max(t, {-1}); }).toDoubles(), ElementsAre(4, 3));
  const HostTensor where = valueOf(x, [](Tensor t) { return argMax(t); });
  EXPECT_EQ(where.dtype(), DType::I64);
  EXPECT_THAT(where.toDoubles(), ElementsAre(1, 0));
}

TEST(Functional, ShapesFollowPyTorch) {
  const HostTensor x(DType::F32, Shape{2, 3, 4});
  const auto shapeOf = [&](auto f) { return valueOf(x, f).shape(); };
  EXPECT_EQ(shapeOf([](Tensor t) { return flatten(t, 1); }), (Shape{2, 12}));
  EXPECT_EQ(shapeOf([](Tensor t) { return flatten(t); }), (Shape{24}));
  EXPECT_EQ(shapeOf([](Tensor t) { return flatten(sum(t)); }), (Shape{1}));
  EXPECT_EQ(shapeOf([](Tensor t) { return reshape(t, {4, -1}); }), (Shape{4, 6}));
  EXPECT_EQ(shapeOf([](Tensor t) { return transpose(t, 0, -1); }), (Shape{4, 3, 2}));
  EXPECT_EQ(shapeOf([](Tensor t) { return permute(t, {1, 0, 2}); }), (Shape{3, 2, 4}));
  EXPECT_EQ(shapeOf([](Tensor t) { return split(t, {1, 2}, 1)[1]; }), (Shape{2, 2, 4}));
  EXPECT_EQ(shapeOf([](Tensor t) { return concat({t, t}, -1); }), (Shape{2, 3, 8}));
  EXPECT_EQ(shapeOf([](Tensor t) { return globalAvgPool(t); }), (Shape{2, 3}));
}

TEST(Functional, SlicesAndGathers) {
  const HostTensor x = HostTensor::of<double>(Shape{2, 3}, {0, 1, 2, 10, 11, 12});
  EXPECT_THAT(valueOf(x, [](Tensor t) { return slice(t, 1, 1, 3); }).toDoubles(),
              ElementsAre(1, 2, 11, 12));
  EXPECT_THAT(valueOf(x, [](Tensor t) { return slice(t, -1, 0, -2); }).toDoubles(),
              ElementsAre(0, 10));
  const HostTensor indices = HostTensor::of<std::int64_t>(Shape{2}, {2, 0});
  EXPECT_THAT(valueOf(x, indices, [](Tensor t, Tensor i) { return gather(t, i, 1); }).toDoubles(),
              ElementsAre(2, 0, 12, 10));
}

TEST(Functional, SoftmaxAndLossesFollowTheirFormulas) {
  const HostTensor logits = HostTensor::of<double>(Shape{1, 2}, {0, std::log(3.0)});
  EXPECT_THAT(valueOf(logits, [](Tensor t) { return softmax(t); }).toDoubles(),
              ElementsAre(DoubleNear(0.25, 1e-12), DoubleNear(0.75, 1e-12)));
  const HostTensor label = HostTensor::of<std::int64_t>(Shape{1}, {0});
  const auto entropy = [](Tensor t, Tensor l) { return crossEntropy(t, l); };
  const auto likelihood = [](Tensor t, Tensor l) { return nllLoss(logSoftmax(t), l); };
  EXPECT_NEAR(valueOf(logits, label, entropy).at(0), std::log(4.0), 1e-12);
  EXPECT_NEAR(valueOf(logits, label, likelihood).at(0), std::log(4.0), 1e-12);
  const HostTensor x = doubleRow({0.5, 0.25});
  const HostTensor target = doubleRow({1, 0});
  const auto loss = [&](auto f) { return valueOf(x, target, f).at(0); };
  EXPECT_NEAR(loss([](Tensor a, Tensor b) { return mseLoss(a, b); }), 0.15625, 1e-12);
  EXPECT_NEAR(loss([](Tensor a, Tensor b) { return l1Loss(a, b, Reduction::Sum); }), 0.75, 1e-12);
  EXPECT_NEAR(loss([](Tensor a, Tensor b) { return bceLoss(a, b); }),
              -(std::log(0.5) + std::log(0.75)) / 2,
              1e-12);
  EXPECT_NEAR(loss([](Tensor a, Tensor b) { return bceWithLogits(a, b); }),
              (std::log1p(std::exp(-0.5)) + std::log1p(std::exp(0.25))) / 2,
              1e-12);
}

TEST(Functional, RefusesArgumentsThatDoNotFit) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F32, Shape{2, 3}});
  EXPECT_THAT(messageOf([&] { reshape(x, {-1, -1}); }), HasSubstr("-1"));
  EXPECT_THAT(messageOf([&] { reshape(x, {4, -1}); }), HasSubstr("4"));
  EXPECT_THAT(messageOf([&] { reshape(x, {0, -1}); }), HasSubstr("0"));
  EXPECT_THAT(messageOf([&] { reshape(x, {7}); }), HasSubstr("7"));
  EXPECT_THAT(messageOf([&] { flatten(x, 2); }), HasSubstr("axis"));
  EXPECT_THAT(messageOf([&] { linear(x, transpose(x, 0, 1)); }), HasSubstr("linear"));
  EXPECT_THAT(messageOf([&] { conv2d(x, x); }), HasSubstr("conv2d"));
  EXPECT_THAT(messageOf([&] { avgPool2d(x, 2); }), HasSubstr("avgPool2d"));
  EXPECT_THAT(messageOf([&] { globalAvgPool(x); }), HasSubstr("globalAvgPool"));
  EXPECT_THAT(messageOf([&] { dropout(x, 1.5); }), HasSubstr("1.5"));
  EXPECT_THAT(messageOf([&] { concat({}); }), HasSubstr("concat"));
  const Tensor image = tracer.input("image", {DType::F32, Shape{1, 1, 4, 4}});
  const Tensor w = tracer.input("w", {DType::F32, Shape{2, 1, 3, 3}});
  EXPECT_THAT(messageOf([&] { conv2d(image, w, {.stride = {1, 2, 3}}); }), HasSubstr("stride"));
  EXPECT_THAT(messageOf([&] { conv2d(image, w, {}, x); }), HasSubstr("bias"));
}

TEST(Functional, NumbersThatAnIntegerTensorCannotHoldAreRefused) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor whole = tracer.input("whole", {DType::I64, Shape{2}});
  const Tensor flag = tracer.input("flag", {DType::Bool, Shape{2}});
  EXPECT_EQ((whole * 2.0).dtype(), DType::I64);
  EXPECT_THAT(messageOf([&] { whole * 0.5; }), HasSubstr("cast"));
  EXPECT_THAT(messageOf([&] { greater(whole, 0.5); }), HasSubstr("0.5"));
  EXPECT_THAT(messageOf([&] { maximum(whole, INFINITY); }), HasSubstr("cast"));
  EXPECT_EQ((flag == 1.0).dtype(), DType::Bool);
  EXPECT_THAT(messageOf([&] { flag == 2.0; }), HasSubstr("cannot hold"));
}

TEST(Functional, IndicesAndSlicesAreChecked) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F32, Shape{2, 3}});
  EXPECT_EQ(x[1].shape(), (Shape{3}));
  EXPECT_EQ((x[{0, 1}].shape()), (Shape{1, 3}));
  EXPECT_EQ(x.shape(-1), 3);
  EXPECT_EQ(x.rank(), 2);
  EXPECT_THAT(messageOf([&] { x[2]; }), HasSubstr("2 elements"));
  EXPECT_THAT(messageOf([&] { x[-3]; }), HasSubstr("-3"));
  EXPECT_THAT(messageOf([&] { x.shape(2); }), HasSubstr("axis"));
  EXPECT_THAT(messageOf([&] { x.index({0, 0, 0}); }), HasSubstr("fewer axes"));
  Tensor y = x;
  y += x;
  y -= 1.0;
  y *= 2.0;
  y /= x;
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_NE(y.value(), x.value());
}

TEST(Functional, SettingsThatMakeNoSenseAreRefused) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F32, Shape{2, 3}});
  const Tensor image = tracer.input("image", {DType::F32, Shape{1, 2, 4, 4}});
  const Tensor w = tracer.input("w", {DType::F32, Shape{2, 2, 3, 3}});
  const Tensor places = tracer.input("places", {DType::I64, Shape{2, 1}});
  EXPECT_THAT(messageOf([&] { glu(x); }), HasSubstr("halved"));
  EXPECT_THAT(messageOf([&] { prelu(x, x); }), HasSubstr("slope"));
  EXPECT_THAT(messageOf([&] { stack({x, image}); }), HasSubstr("one shape"));
  EXPECT_THAT(messageOf([&] { chunk(x, 0); }), HasSubstr("at least 1"));
  EXPECT_THAT(messageOf([&] { expand(x, {3}); }), HasSubstr("more axes"));
  EXPECT_THAT(messageOf([&] { pad(x, {1}); }), HasSubstr("pairs"));
  EXPECT_THAT(messageOf([&] { pad(x, {1, 1}, "wrap"); }), HasSubstr("replicate"));
  EXPECT_THAT(messageOf([&] { arange(0, 4, 0.0); }), HasSubstr("arange"));
  EXPECT_THAT(messageOf([&] { arange(4, 0); }), HasSubstr("steps of 1"));
  EXPECT_THAT(messageOf([&] { linspace(0, 1, 0); }), HasSubstr("linspace"));
  EXPECT_THAT(messageOf([&] { indexSelect(x, 0, places); }), HasSubstr("list"));
  EXPECT_THAT(messageOf([&] { scatterReduce(x, 1, places, x, "mean"); }), HasSubstr("amax"));
  EXPECT_THAT(messageOf([&] { var(unsqueeze(x, 0), {.axes = {0}}); }), HasSubstr("unbiased"));
  EXPECT_THAT(messageOf([&] { convTranspose2d(image, w, {.outputPadding = {1}}); }),
              HasSubstr("output padding"));
  EXPECT_THAT(messageOf([&] { convTranspose2d(image, w, {.groups = 3}); }),
              HasSubstr("channels / 3"));
  EXPECT_THAT(messageOf([&] { convTranspose2d(x, w); }), HasSubstr("rank 4"));
  EXPECT_THAT(messageOf([&] { maxPool1d(image, {}); }), HasSubstr("maxPool1d"));
  EXPECT_THAT(messageOf([&] { maxPool2d(image, {.kernel = {2, 2, 2}}); }), HasSubstr("kernel"));
  EXPECT_THAT(messageOf([&] { adaptiveAvgPool2d(image, {0}); }), HasSubstr("positive or -1"));
  EXPECT_THAT(messageOf([&] { adaptiveAvgPool1d(image, {1}); }), HasSubstr("spatial"));
  EXPECT_THAT(messageOf([&] { interpolate(image, {}); }), HasSubstr("either a size"));
  EXPECT_THAT(messageOf([&] { interpolate(image, {.size = {8}, .mode = "linear"}); }),
              HasSubstr("bilinear"));
  EXPECT_THAT(messageOf([&] { interpolate(image, {.scaleFactor = {0.1}}); }), HasSubstr("0.1"));
  EXPECT_THAT(messageOf([&] {
                interpolate(image, {.scaleFactor = {2, 2, 2}});
              }),
              HasSubstr("3 factors"));
  EXPECT_THAT(messageOf([&] { interpolate(x, {.size = {8}}); }), HasSubstr("interpolate"));
  EXPECT_THAT(messageOf([&] { pixelShuffle(image, 2); }), HasSubstr("pixelShuffle"));
  EXPECT_THAT(messageOf([&] { pixelUnshuffle(image, 3); }), HasSubstr("blocks"));
  EXPECT_THAT(messageOf([&] { instanceNorm(x); }), HasSubstr("instanceNorm"));
  EXPECT_THAT(messageOf([&] { dropout2d(x, 0.5); }), HasSubstr("dropout2d"));
  EXPECT_THAT(messageOf([&] { smoothL1Loss(x, x, -1.0); }), HasSubstr("beta"));
  EXPECT_THAT(messageOf([&] { huberLoss(x, x, 0.0); }), HasSubstr("delta"));
}

TEST(Functional, CtcBeamSearchDecoderGivesTheBestPathPerItem) {
  // Label 1 at step 0 and 2, none between: "1 1".
  HostTensor logs = HostTensor::full({DType::F64, Shape{3, 1, 2}}, std::log(0.1));
  logs.set(1, std::log(0.9));
  logs.set(2, std::log(0.9));
  logs.set(5, std::log(0.9));
  const HostTensor steps = HostTensor::of<std::int64_t>(Shape{1}, {3});
  const auto part = [&](Tensor CtcDecoded::*wanted) {
    return valueOf(
               logs,
               steps,
               [&](const Tensor& x, const Tensor& n) { return ctcBeamSearchDecoder(x, n).*wanted; })
        .toDoubles();
  };
  EXPECT_THAT(part(&CtcDecoded::probabilities), ElementsAre(DoubleNear(0.729, 1e-12)));
  EXPECT_THAT(part(&CtcDecoded::lengths), ElementsAre(2));
  EXPECT_THAT(part(&CtcDecoded::paths), ElementsAre(1, 1, 0));
}

TEST(Functional, PrintTensorGivesTheValue) {
  const auto printed = [](const Tensor& x) { return printTensor(x, {.title = "functional"}); };
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(valueOf(doubleRow({1, 2}), printed).toDoubles(), ElementsAre(1, 2));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("functional:\n(1.000, 2.000)"));
}

}  // namespace
}  // namespace sluice::nn
