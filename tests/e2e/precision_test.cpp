// Training and inference in float16, bfloat16 and mixtures: accuracy, types, the same bits
// everywhere.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;
using parallel::SerialPhasedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using testing::Bits;
using testing::BlockedCnn;
using testing::BlockedGpt;
using ::testing::HasSubstr;
using testing::messageOf;
using testing::randomTensor;

/// A network whose weights, activations and float inputs are of one type.
template <class Net, DType kType>
struct In : Net {
  In() { this->to(kType); }
  static std::vector<TensorType> inputs() {
    std::vector<TensorType> types = Net::inputs();
    for (TensorType& type : types) {
      type.dtype = isFloat(type.dtype) ? kType : type.dtype;
    }
    return types;
  }
};

std::vector<Options> strategies() {
  std::vector<Options> all;
  const auto add = [&](const Strategy& strategy) {
    Options options;
    options.setExecutionStrategy(strategy);
    options.threads(all.size() % 2 == 1 ? 2 : 1);
    options.recomputation(all.size() % 2 == 1 ? Recomputation::Pipeline : Recomputation::None);
    options.training.gradientAccumulation(4);
    all.push_back(std::move(options));
  };
  add(PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")}));
  add(PipelinedExecution({Stage("b0", "b1"), "b2", Stage("b3", "b4")}));
  add(PipelinedExecution({"b0", "b1", "b2", Stage("b3", "b4")}).schedule("zero-bubble"));
  add(ShardedExecution({Stage("b0", "b1"), Stage("b2", "b3", "b4")}));
  add(SerialPhasedExecution({"b0", "b1", "b2", "b3", "b4"}));
  return all;
}

template <class Net>
void expectSameBits(const optim::Optimizer& optimizer, bool stochastic = false) {
  Bits expected;
  for (Options& options : strategies()) {
    SCOPED_TRACE(options.str());
    options.precision.enableStochasticRounding(stochastic);
    Bits bits = testing::trainWith<Net>(optimizer, options, 3);
    // What is remote holds no sums between rounds.
    std::erase_if(bits, [](const auto& entry) { return entry.first.ends_with(".accumulator"); });
    expected = expected.empty() ? bits : expected;
    EXPECT_EQ(bits, expected);
  }
}

TEST(Precision, Float16LeavesTheSameBitsUnderEveryStrategy) {
  const optim::AdamW adam(optim::AdamOptions{.lr = 0.01, .lossScaling = 128});
  expectSameBits<In<BlockedCnn, DType::F16>>(adam);
  expectSameBits<In<BlockedGpt, DType::F16>>(adam);
  expectSameBits<In<BlockedCnn, DType::BF16>>(adam);
}

/// Images of three classes: noise, and a bright square in one of three corners.
std::vector<HostTensor> corners(std::int64_t count, std::uint64_t seed, DType dtype) {
  HostTensor images = randomTensor(seed, {DType::F32, Shape{count, 1, 16, 16}}, -1.5, 1.5);
  HostTensor labels(DType::I64, Shape{count});
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = i % 3;
    labels.set(i, static_cast<double>(label));
    for (std::int64_t p = 0; p < 16; ++p) {
      const std::int64_t row = p / 4 + (label == 1 ? 10 : 2);
      const std::int64_t column = p % 4 + (label == 2 ? 10 : 2);
      const std::int64_t at = (i * 16 + row) * 16 + column;
      images.set(at, images.at(at) + 0.7);
    }
  }
  return {cast(images, dtype), labels};
}

double accuracyAfterTraining(DType dtype, double lossScaling) {
  BlockedCnn net;
  net.to(dtype);
  Options options;
  options.deviceIterations(30).outputMode(OutputMode::Final);
  auto model = trainingModel(net, options, optim::AdamW({.lr = 0.004, .lossScaling = lossScaling}));
  for (std::uint64_t call = 0; call < 5; ++call) {
    model.run(corners(30 * 30, call, dtype));
  }
  auto tested = inferenceModel(net, Options());
  const std::vector<HostTensor> test = corners(3000, 99, dtype);
  return accuracy(tested.run(test)[0], test[1]);
}

TEST(Precision, NetworksLearnAsWellInFloat16AsInFloat32) {
  const double full = accuracyAfterTraining(DType::F32, 1);
  const double half = accuracyAfterTraining(DType::F16, 1024);
  const double brain = accuracyAfterTraining(DType::BF16, 1);
  EXPECT_GT(full, 90);
  EXPECT_LT(full, 100);
  EXPECT_NEAR(half, full, 0.5);
  EXPECT_NEAR(brain, full, 1.0);
}

/// y = w x for one number, so that types and roundings can be followed.
struct Product : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1, {.bias = false}};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    const nn::Tensor y = fc(x);
    return {y, nn::sum(y)};
  }
};

HostTensor halfOf(float value) {
  return cast(HostTensor::of<float>(Shape{1, 1}, {value}), DType::F16);
}

TEST(Precision, OptionsDecideAboutMixedOperands) {
  for (const bool up : {false, true}) {
    Product net;
    net.fc.weight.setValue(HostTensor::of<float>(Shape{1, 1}, {1.0F + 0x1p-12F}));
    Options options;
    if (up) {
      options.precision.halfFloatCasting(HalfFloatCasting::HalfUpcastToFloat);
    }
    auto model = inferenceModel(net, options);
    const HostTensor y = model(halfOf(2.0F)).first;
    EXPECT_EQ(y.dtype(), up ? DType::F32 : DType::F16);
    EXPECT_EQ(y.at(0), up ? 2.0 + 0x1p-11 : 2.0);
  }
}

TEST(Precision, FloatWeightsAreUpdatedInFloat32UnderHalfInputs) {
  // A step of 2^-14 is too small for a float16 weight at 1, and adds up in a float32 one.
  for (const bool half : {false, true}) {
    Product net;
    net.fc.weight.setValue(HostTensor::of<float>(Shape{1, 1}, {1.0F}));
    if (half) {
      net.half();
    }
    auto model = trainingModel(net, Options(), optim::SGD(0x1p-14));
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(model(halfOf(1.0F)).first.at(0), 1.0) << "in float16";
    }
    EXPECT_EQ(net.fc.weight.value().dtype(), half ? DType::F16 : DType::F32);
    EXPECT_EQ(net.fc.weight.value().at(0), half ? 1.0 : 1.0 - 4 * 0x1p-14);
  }
}

TEST(Precision, AutocastFollowsModelAndOptions) {
  const auto typeOf = [](bool requested, const Options& options) {
    Product net;
    if (requested) {
      net.autocast();
    }
    auto model = inferenceModel(net, options);
    return model(HostTensor::of<float>(Shape{1, 1}, {1.0F})).first.dtype();
  };
  EXPECT_EQ(typeOf(false, Options()), DType::F32);
  EXPECT_EQ(typeOf(true, Options()), DType::F16);
  Options killed;
  killed.precision.autocastEnabled(false);
  EXPECT_EQ(typeOf(true, killed), DType::F32);
  Options brain;
  brain.precision.autocastPolicy({.fp16 = {"linear"}, .half = DType::BF16});
  EXPECT_EQ(typeOf(true, brain), DType::BF16);
  Options none;
  none.precision.autocastPolicy({});
  EXPECT_EQ(typeOf(true, none), DType::F32);
}

TEST(Precision, AutocastTrainsFloat32Weights) {
  struct Autocasted : BlockedCnn {
    Autocasted() { this->autocast(); }
  };
  const optim::AdamW adam(optim::AdamOptions{.lr = 0.01, .lossScaling = 128});
  expectSameBits<Autocasted>(adam);
  Autocasted net;
  auto model = trainingModel(net, Options(), adam);
  model.run(testing::makeInputs(BlockedCnn::inputs(), 0, 1));
  EXPECT_EQ(net.conv1.weight.value().dtype(), DType::F32);
}

TEST(StochasticRounding, LeavesTheSameBitsUnderEveryStrategy) {
  const optim::AdamW adam(optim::AdamOptions{.lr = 0.01, .lossScaling = 128});
  expectSameBits<In<BlockedCnn, DType::F16>>(adam, true);
  expectSameBits<In<BlockedGpt, DType::BF16>>(adam, true);
  const optim::SGD sgd({.lr = 0.05, .momentum = 0.9});
  expectSameBits<In<BlockedCnn, DType::F16>>(sgd, true);
}

/// A vector of weights whose gradient is 1.
struct StoredWeights : nn::Module {
  explicit StoredWeights(std::int64_t count)
      : w(addParameter("w", {DType::F16, Shape{count}}, ir::Initializer::constant(1))) {}
  nn::Tensor forward(nn::Tensor x) { return nn::sum(nn::cast(w.use(), DType::F32) * nn::sum(x)); }
  nn::Parameter& w;
};

TEST(StochasticRounding, KeepsStepsThatRoundingToNearestLoses) {
  constexpr std::int64_t kCount = 4096;
  const auto meanAfter = [](bool stochastic, std::int64_t replicas) {
    StoredWeights net(kCount);
    Options options;
    options.replicationFactor(replicas);
    options.precision.enableStochasticRounding(stochastic);
    auto model = trainingModel(net, options, optim::SGD(0x1p-14));
    for (int i = 0; i < 8; ++i) {
      model.run({HostTensor::full({DType::F32, Shape{replicas, 1}}, 1.0)});
    }
    for (std::size_t r = 1; r < static_cast<std::size_t>(replicas); ++r) {
      EXPECT_TRUE(model.session().read("w", 0).sameBits(model.session().read("w", r)));
    }
    return meanOf(net.w.value());
  };
  // Eight steps of 2^-14 are 2^-11, which is one unit of float16 below 1.
  EXPECT_EQ(meanAfter(false, 1), 1.0);
  EXPECT_NEAR(meanAfter(true, 1), 1.0 - 0x1p-11, 0x1p-11 / 20);
  EXPECT_NEAR(meanAfter(true, 3), 1.0 - 0x1p-11, 0x1p-11 / 20);
}

TEST(StochasticRounding, LeavesFloat32WeightsAlone) {
  const auto bits = [](bool stochastic) {
    Options options;
    options.precision.enableStochasticRounding(stochastic);
    return testing::train<BlockedCnn>(options, 2);
  };
  EXPECT_EQ(bits(true), bits(false));
}

TEST(Precision, TypesAreFixedWhileAModelHoldsThem) {
  Product net;
  auto model = inferenceModel(net, Options());
  model(halfOf(1.0F));
  EXPECT_THAT(messageOf([&] { net.half(); }), HasSubstr("destroy() the model"));
  EXPECT_EQ(net.fc.weight.type().dtype, DType::F32);
  EXPECT_THAT(messageOf([&] {
                model(HostTensor::of<float>(Shape{1, 1}, {1.0F}));
              }),
              HasSubstr("another type"));
  model.destroy();
  net.half();
  auto again = inferenceModel(net, Options());
  EXPECT_EQ(again(halfOf(1.0F)).first.dtype(), DType::F16);
}

}  // namespace
}  // namespace sluice
