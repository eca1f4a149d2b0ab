// Types of 16 and 32 bits in the front end: operands that differ, autocast, modules in float16.
#include "sluice/nn/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/nn/helpers.h"
#include "sluice/nn/modules.h"
#include "sluice/nn/operands.h"
#include "sluice/transforms/autodiff.h"
#include "tests/support/layer_run.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;

constexpr DType kHalf = DType::F16;
constexpr DType kFloat = DType::F32;

/// A trace with inputs made on demand.
struct CastTrace {
  explicit CastTrace(PrecisionSettings settings = {}, TraceMode mode = TraceMode::Inference)
      : tracer(graph, mode) {
    tracer.setPrecision(std::move(settings));
  }
  Tensor input(DType dtype, Shape shape = {2, 2}) {
    return tracer.input("in" + std::to_string(inputs++), {dtype, std::move(shape)});
  }

  ir::Graph graph;
  Tracer tracer;
  int inputs = 0;
};

PrecisionSettings upcasting() {
  return {.halfFloatCasting = HalfFloatCasting::HalfUpcastToFloat};
}

TEST(HalfFloatCasting, DecidesTheTypeOfMixedOperands) {
  for (const DType half : {DType::F16, DType::BF16}) {
    for (const bool up : {false, true}) {
      CastTrace t(up ? upcasting() : PrecisionSettings());
      const DType expected = up ? kFloat : half;
      const Tensor x = t.input(half);
      const Tensor w = t.input(kFloat);
      EXPECT_EQ((x + w).dtype(), expected);
      EXPECT_EQ((w / x).dtype(), expected);
      EXPECT_EQ(matmul(x, w).dtype(), expected);
      EXPECT_EQ(linear(x, w, t.input(kFloat, {2})).dtype(), expected);
      EXPECT_EQ(concat({x, w, x}).dtype(), expected);
      EXPECT_EQ(where(equal(x, w), w, x).dtype(), expected);
      EXPECT_EQ(mseLoss(x, w).dtype(), expected);
      EXPECT_EQ(layerNorm(x, t.input(kFloat, {2}), t.input(kFloat, {2})).dtype(), expected);
      EXPECT_EQ(batchNorm(x, t.input(kFloat, {2}), t.input(kFloat, {2})).y.dtype(), expected);
      const Tensor image = t.input(half, {1, 2, 3, 3});
      EXPECT_EQ(conv2d(image, t.input(kFloat, {1, 2, 2, 2})).dtype(), expected);
    }
  }
}

TEST(HalfFloatCasting, LeavesOperandsOfOneTypeAndOtherTypesAlone) {
  CastTrace t;
  const Tensor x = t.input(kHalf);
  const std::size_t before = t.graph.numOps();
  EXPECT_EQ((x * x).dtype(), kHalf);
  EXPECT_EQ(t.graph.numOps(), before + 1);
  EXPECT_EQ((t.input(DType::F64) + t.input(DType::F64)).dtype(), DType::F64);
  EXPECT_THAT(messageOf([&] { t.input(DType::F64) + t.input(kFloat); }), HasSubstr("f64"));
  EXPECT_THAT(messageOf([&] { t.input(DType::BF16) + x; }), HasSubstr("bf16"));
  EXPECT_THAT(messageOf([&] { x + t.input(DType::I32); }), HasSubstr("i32"));
}

TEST(HalfFloatCasting, ExplicitCastsAreHonoured) {
  CastTrace t;
  const Tensor x = t.input(kHalf);
  const Tensor wide = cast(x, kFloat);
  EXPECT_EQ(wide.dtype(), kFloat);
  EXPECT_EQ(relu(wide).dtype(), kFloat);
  EXPECT_EQ((wide * 2.0).dtype(), kFloat);
  EXPECT_EQ(scalar(1.0, kFloat).dtype(), kFloat);
  EXPECT_EQ((wide + scalar(1.0, kFloat)).dtype(), kFloat);
}

TEST(HalfFloatCasting, FloatWeightsAreCastWhereTheyAreUsed) {
  struct Net : Module {
    Linear fc{*this, "fc", 2, 1, {.bias = false}};
  } net;
  net.fc.weight.setValue(HostTensor::of<float>(Shape{1, 2}, {1.0F + 0x1p-12F, 2.0F}));
  const HostTensor x = cast(HostTensor::of<float>(Shape{1, 2}, {1.0F, 3.0F}), kHalf);
  // 1 + 2^-12 is 1 in float16.
  const HostTensor y = evaluated(
      {x}, [&](auto& in) { return net.fc(in[0]); }, net);
  EXPECT_EQ(y.dtype(), kHalf);
  EXPECT_EQ(y.at(0), 7.0);

  CastTrace t;
  const Tensor loss = sum(net.fc(t.input(kHalf, {1, 2})));
  ir::Value weight;
  for (const ir::OpId id : t.graph.order()) {
    if (t.graph.op(id).is(ir::kVariable)) {
      weight = t.graph.op(id).out();
    }
  }
  EXPECT_EQ(t.graph.type(weight).dtype, kFloat);
  const auto grads = transforms::differentiate(t.graph, loss.value(), std::vector{weight}, {});
  EXPECT_EQ(t.graph.type(grads[0]).dtype, kFloat);
}

TEST(Autocast, IsOffUnlessRequestedAndNests) {
  CastTrace t;
  const Tensor a = t.input(kFloat);
  const Tensor b = t.input(kFloat);
  EXPECT_EQ(matmul(a, b).dtype(), kFloat);
  {
    const Autocast on;
    EXPECT_EQ(matmul(a, b).dtype(), kHalf);
    {
      const Autocast off(false);
      EXPECT_EQ(matmul(a, b).dtype(), kFloat);
      const Autocast again;
      EXPECT_EQ(matmul(a, b).dtype(), kHalf);
    }
    EXPECT_EQ(matmul(a, b).dtype(), kHalf);
    EXPECT_EQ(relu(a).dtype(), kFloat) << "not in the policy";
  }
  EXPECT_EQ(matmul(a, b).dtype(), kFloat);
  EXPECT_THROW(
      {
        const Autocast on;
        raise<InvalidArgument>("leaves the scope");
      },
      InvalidArgument);
  EXPECT_EQ(matmul(a, b).dtype(), kFloat);
}

TEST(Autocast, WrapsFunctions) {
  CastTrace t;
  const Tensor a = t.input(kFloat);
  auto half = autocasted([](const Tensor& x, const Tensor& y) { return matmul(x, y); });
  auto full = autocasted([](const Tensor& x, const Tensor& y) { return matmul(x, y); }, false);
  EXPECT_EQ(half(a, a).dtype(), kHalf);
  EXPECT_EQ(matmul(a, a).dtype(), kFloat);
  const Autocast on;
  EXPECT_EQ(full(a, a).dtype(), kFloat);
}

TEST(Autocast, CanBeSwitchedOffForAll) {
  CastTrace t({.autocastEnabled = false});
  const Autocast on;
  const Tensor a = t.input(kFloat);
  EXPECT_EQ(matmul(a, a).dtype(), kFloat);
}

TEST(Autocast, DefaultPolicyPromotesWhereItMust) {
  CastTrace t;
  const Autocast on;
  const Tensor half = t.input(kHalf);
  const Tensor full = t.input(kFloat);
  EXPECT_EQ(concat({half, full}).dtype(), kFloat);
  EXPECT_EQ(concat({half, half}).dtype(), kHalf);
  EXPECT_EQ(matmul(t.input(kHalf, {3}), t.input(kFloat, {3})).dtype(), kFloat) << "dot";
  EXPECT_EQ(matmul(t.input(kFloat, {3}), t.input(kFloat, {3})).dtype(), kFloat) << "dot";
  EXPECT_EQ((half + full).dtype(), kHalf) << "no rule: HalfFloatCasting";
  EXPECT_EQ(matmul(t.input(DType::F64), t.input(DType::F64)).dtype(), DType::F64);
}

/// The network of the guide's first example.
struct TwoConvs : Module {
  Conv2d conv1{*this, "conv1", 1, 2, 3};
  ReLU relu1{*this, "relu1"};
  Conv2d conv2{*this, "conv2", 2, 2, 3};
  ReLU relu2{*this, "relu2"};

  std::vector<DType> types(const Tensor& image) {
    std::vector<DType> found;
    Tensor x = image;
    for (Layer* layer : std::initializer_list<Layer*>{&conv1, &relu1, &conv2, &relu2}) {
      x = (*layer)(x);
      found.push_back(x.dtype());
    }
    return found;
  }
};

TEST(Autocast, NearestSettingOfALayerCounts) {
  TwoConvs net;
  const auto typesOf = [&](const PrecisionSettings& settings) {
    CastTrace t(settings);
    t.tracer.beginModel(net);
    return net.types(t.input(kFloat, {1, 1, 8, 8}));
  };
  const PrecisionSettings policy = {.halfFloatCasting = HalfFloatCasting::HalfUpcastToFloat,
                                    .autocastPolicy = {.fp16 = {"conv2d", "relu"}}};
  EXPECT_EQ(typesOf(policy), (std::vector{kFloat, kFloat, kFloat, kFloat}));
  net.autocast();
  EXPECT_EQ(typesOf(policy), (std::vector{kHalf, kHalf, kHalf, kHalf}));
  // On for all but the first activation and the second convolution.
  net.relu1.autocast(false);
  net.conv2.autocast(false);
  EXPECT_EQ(typesOf(policy), (std::vector{kHalf, kHalf, kFloat, kHalf}));
  PrecisionSettings killed = policy;
  killed.autocastEnabled = false;
  EXPECT_EQ(typesOf(killed), (std::vector{kFloat, kFloat, kFloat, kFloat}));
}

TEST(Autocast, AScopeAroundALayerCountsBeforeTheModel) {
  TwoConvs net;
  net.autocast();
  CastTrace t;
  t.tracer.beginModel(net);
  const Tensor x = t.input(kFloat, {1, 1, 8, 8});
  {
    const Autocast off(false);
    EXPECT_EQ(net.conv1(x).dtype(), kFloat);
    net.conv1.autocast();
    EXPECT_EQ(net.conv1(x).dtype(), kHalf) << "its own setting is nearer";
  }
  EXPECT_EQ(net.conv1(x).dtype(), kHalf);
}

TEST(Autocast, AParentsSettingHoldsForItsLayers) {
  struct Net : Module {
    Sequential body{*this, "body"};
    Linear last{*this, "last", 2, 2};
    Net() { body.add<Linear>(2, 2).add<Linear>(2, 2); }
  } net;
  net.body.autocast();
  net.body[1].autocast(false);
  CastTrace t(upcasting());
  t.tracer.beginModel(net);
  const Tensor x = t.input(kFloat);
  EXPECT_EQ(net.body(x).dtype(), kFloat);
  EXPECT_EQ(net.body[0](x).dtype(), kHalf) << "applied alone";
  EXPECT_EQ(net.last(x).dtype(), kFloat);
}

TEST(Autocast, CustomPolicyOfTheGuide) {
  CastTrace t(
      {.autocastPolicy = {.fp16 = {"convolution", "ReLU"}, .fp32 = {"bmm"}, .promote = {"dot"}}});
  const Autocast on;
  EXPECT_EQ(conv2d(t.input(kFloat, {1, 1, 4, 4}), t.input(kFloat, {1, 1, 2, 2})).dtype(), kHalf);
  struct Net : Module {
    ReLU act{*this, "act"};
  } net;
  EXPECT_EQ(net.act(t.input(kFloat)).dtype(), kHalf);
  EXPECT_EQ(relu(t.input(kFloat)).dtype(), kFloat) << "only the layer is listed";
  EXPECT_EQ(matmul(t.input(kHalf, {1, 2, 2}), t.input(kHalf, {1, 2, 2})).dtype(), kFloat);
  EXPECT_EQ(matmul(t.input(kHalf, {2}), t.input(kFloat, {2})).dtype(), kFloat);
  EXPECT_EQ(matmul(t.input(kHalf, {2}), t.input(kHalf, {2})).dtype(), kHalf);
  EXPECT_EQ(matmul(t.input(kFloat), t.input(kFloat)).dtype(), kFloat) << "mm has no rule";
}

TEST(Autocast, DemotesAndKnowsBfloat16) {
  CastTrace t({.halfFloatCasting = HalfFloatCasting::HalfUpcastToFloat,
               .autocastPolicy = {.fp16 = {"matmul"}, .demote = {"add"}, .half = DType::BF16}});
  const Autocast on;
  const Tensor full = t.input(kFloat);
  const Tensor brain = t.input(DType::BF16);
  EXPECT_EQ(matmul(full, full).dtype(), DType::BF16);
  EXPECT_EQ((full + brain).dtype(), DType::BF16);
  EXPECT_EQ((full + full).dtype(), kFloat);
  EXPECT_EQ((full - brain).dtype(), kFloat);
}

TEST(Autocast, ReachesTheHelpers) {
  CastTrace t;
  const Autocast on;
  for (const auto mode : {MatMulSerializationMode::ReducingDim,
                          MatMulSerializationMode::InputChannels,
                          MatMulSerializationMode::OutputChannels,
                          MatMulSerializationMode::Disabled}) {
    const Tensor x = t.input(kFloat);
    EXPECT_EQ(serializedMatMul(x, x, mode, 2, true).dtype(), kHalf);
  }
  // The partial products meet in float32.
  bool wide = false;
  for (const ir::OpId id : t.graph.order()) {
    const ir::Op& op = t.graph.op(id);
    wide = wide || (op.def->name == "add" && op.outputs[0].dtype == kFloat);
  }
  EXPECT_TRUE(wide);
  const Tensor start = t.input(DType::I32, {1});
  const Tensor row = t.input(kHalf, {1, 2});
  EXPECT_EQ(dynamicUpdate(t.input(kFloat), row, 0, start).dtype(), kFloat) << "index_put promotes";
  const Autocast off(false);
  EXPECT_EQ(dynamicUpdate(t.input(kFloat), row, 0, start).dtype(), kHalf);
}

TEST(Autocast, ANumberTakesTheTypeOfTheTensor) {
  CastTrace t({.autocastPolicy = {.fp16 = {"mul"}, .fp32 = {"add"}}});
  const Autocast on;
  EXPECT_EQ((t.input(kFloat) * 2.0).dtype(), kHalf);
  EXPECT_EQ((1.0 + t.input(kHalf)).dtype(), kFloat);
}

TEST(Policy, TheMoreSpecialNameCounts) {
  const Policy policy = {.fp16 = {"matmul", "Linear"}, .fp32 = {"bmm"}, .promote = {"addmm"}};
  EXPECT_EQ(ruleOf(policy, "mm", ""), AutocastRule::Half);
  EXPECT_EQ(ruleOf(policy, "bmm", ""), AutocastRule::Float);
  EXPECT_EQ(ruleOf(policy, "linear", ""), AutocastRule::Promote);
  EXPECT_EQ(ruleOf(policy, "linear", "Linear"), AutocastRule::Half);
  EXPECT_EQ(ruleOf(policy, "relu", "Sequential"), AutocastRule::None);
}

TEST(Policy, RefusesWhatItDoesNotKnow) {
  EXPECT_NO_THROW(requireValid(Policy::standard()));
  EXPECT_NO_THROW(requireValid({.fp16 = {"matmul", "matmul"}}));
  EXPECT_THAT(messageOf([] { requireValid({.fp32 = {"matmull"}}); }),
              HasSubstr("unknown op 'matmull' in fp32"));
  EXPECT_THAT(messageOf([] { requireValid({.fp16 = {"relu"}, .demote = {"relu"}}); }),
              HasSubstr("'relu' is in fp16 and in demote"));
  EXPECT_THAT(messageOf([] { requireValid({.half = DType::F32}); }), HasSubstr("half is f32"));
}

TEST(Policy, EveryFunctionIsKnown) {
  // Tracing each function under autocast looks its name up; an unknown one would be our bug.
  CastTrace t({}, TraceMode::Training);
  const Autocast on;
  const Tensor x = t.input(kFloat);
  const Tensor v = t.input(kFloat, {2});
  const Tensor image = t.input(kFloat, {1, 2, 4, 4});
  const Tensor labels = t.input(DType::I64, {2});
  for (const auto& f :
       {relu, silu, nn::tanh, sigmoid, nn::exp, nn::log, nn::sqrt, square, nn::abs}) {
    f(x);
  }
  for (const auto& f : {equal, greater, less, matmul}) {
    f(x, x);
  }
  for (const auto& f : {mseLoss, l1Loss, bceLoss, bceWithLogits}) {
    f(x, x, Reduction::Mean);
  }
  gelu(x), pow(x, 2.0), clamp(x, 0, 1), where(equal(x, x), x, x), -x;
  linear(x, x), maxPool2d(image, 2), avgPool2d(image, 2), globalAvgPool(image);
  sum(x), mean(x), max(x), argMax(x), concat({x, x}), embedding(labels, x);
  softmax(x), logSoftmax(x), dropout(x, 0.5), layerNorm(x, v, v), rmsNorm(x, v);
  groupNorm(image, v, v, 1), batchNorm(image, v, v), batchNorm(image, v, v, {v, v});
  scaledDotProductAttention(image, image, image), crossEntropy(x, labels), nllLoss(x, labels);
  x + x, x - x, x *x, x / x;
  EXPECT_EQ(conv2d(image, t.input(kFloat, {1, 2, 2, 2})).dtype(), kHalf);
}

TEST(Module, ToChangesWeightsButNotRunningStatistics) {
  struct Net : Module {
    Linear fc{*this, "fc", 3, 2};
    BatchNorm norm{*this, "norm", 2};
    Embedding table{*this, "table", 4, 2};
  };
  Net net;
  Net full;
  net.half();
  for (const Parameter* parameter : net.parameters()) {
    EXPECT_EQ(parameter->type().dtype, kHalf) << parameter->name();
    EXPECT_TRUE(
        parameter->value().sameBits(cast(full.find(parameter->fullName())->value(), kHalf)));
  }
  EXPECT_EQ(net.norm.runningMean.type().dtype, kFloat);
  EXPECT_EQ(net.norm.numBatchesTracked.type().dtype, DType::I64);
  EXPECT_EQ(net.to(DType::BF16).find("fc.bias")->type().dtype, DType::BF16);
  const HostTensor given = HostTensor::of<float>(Shape{2}, {1.0F, 1.0F / 3});
  full.fc.bias->setValue(given);
  full.half();
  EXPECT_TRUE(full.fc.bias->value().sameBits(cast(given, kHalf)));
  EXPECT_THAT(messageOf([&] { net.to(DType::I32); }), HasSubstr("i32 is no float"));
  EXPECT_THAT(messageOf([&] { net.norm.numBatchesTracked.to(kHalf); }), HasSubstr("no float"));
}

TEST(Recurrent, StepsHaveTheTypeOfTheirProducts) {
  struct Net : Module {
    LSTM lstm{*this, "lstm", 3, 2, {.numLayers = 2, .bidirectional = true}};
    GRU gru{*this, "gru", 3, 2};
  };
  constexpr std::int64_t kSteps = 20;  // a loop op, not an unrolled one
  const Shape shape{kSteps, 1, 3};
  std::vector<float> values;
  for (int i = 0; i < 3 * kSteps; ++i) {
    values.push_back(static_cast<float>(i % 7) / 4 - 0.75F);
  }
  const HostTensor x = HostTensor::of<float>(shape, values);
  for (const DType half : {DType::F16, DType::BF16}) {
    Net full;
    Net net;
    net.to(half);
    const HostTensor narrow = evaluated(
        {cast(x, half)}, [&](auto& in) { return net.lstm(in[0]); }, net);
    const HostTensor wide = evaluated(
        {x}, [&](auto& in) { return full.lstm(in[0]); }, full);
    ASSERT_EQ(narrow.dtype(), half);
    for (std::int64_t i = 0; i < wide.shape().elements(); ++i) {
      EXPECT_NEAR(narrow.at(i), wide.at(i), half == DType::F16 ? 2e-3 : 2e-2) << i;
    }
    CastTrace t;
    EXPECT_EQ(net.gru(t.input(half, shape)).dtype(), half);
    const RecurrentState state{t.input(kFloat, {4, 1, 2}), t.input(kFloat, {4, 1, 2})};
    EXPECT_EQ(net.lstm(t.input(half, shape), state).h[0].dtype(), half) << "states are cast";
  }
  Net net;
  net.autocast();
  CastTrace t;
  t.tracer.beginModel(net);
  EXPECT_EQ(net.lstm(t.input(kFloat, shape)).dtype(), kHalf);
}

TEST(BatchNorm, RunningStatisticsAreFloatUnlessToldOtherwise) {
  struct Net : Module {
    BatchNorm norm{*this, "norm", 1};
  };
  const auto statistics = [](bool alwaysFloat) {
    Net net;
    net.half();
    ops::TensorMap state = stateOf(net);
    CastTrace t({.runningStatisticsAlwaysFloat = alwaysFloat}, TraceMode::Training);
    const Tensor y = net.norm(t.input(kHalf, {2, 1}));
    EXPECT_EQ(y.dtype(), kHalf);
    t.graph.addOutput("y", y.value());
    const HostTensor x = cast(HostTensor::of<float>(Shape{2, 1}, {1.0F, 3.0F}), kHalf);
    ops::evaluate(t.graph, {{"in0", x}}, state);
    EXPECT_EQ(state.at("norm.running_mean").dtype(), kFloat);
    return std::pair(state.at("norm.running_mean").at(0), state.at("norm.running_var").at(0));
  };
  // The batch has mean 2 and unbiased variance 2.
  EXPECT_EQ(statistics(true), (std::pair<double, double>(0.1F * 2.0F, 0.9F + 0.2F)));
  // In float16 0.1, 0.2 and 0.9 are 819 / 8192, 819 / 4096 and 1843 / 2048; the sum 1.09985 lies
  // between 1126 and 1127 of 1024, near the first.
  EXPECT_EQ(statistics(false), std::pair(819.0 / 4096, 1126.0 / 1024));
}

}  // namespace
}  // namespace sluice::nn
