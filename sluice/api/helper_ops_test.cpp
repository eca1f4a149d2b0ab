// The helper ops in models that run: marked losses, host functions, memory hints, gradient
// statistics, metrics.
#include <cmath>
#include <numeric>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using nn::Tensor;
using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

HostTensor floatRow(std::initializer_list<float> values) {
  return HostTensor::of<float>(Shape{std::ssize(values)}, values);
}

template <class F>
std::string loggedBy(F f) {
  ::testing::internal::CaptureStderr();
  f();
  return ::testing::internal::GetCapturedStderr();
}

/// out = x + 1 + b, and a loss of it that is marked but not the last output.
struct Bias : nn::Module {
  nn::Parameter& b = addParameter("b", {DType::F32, Shape{1}}, ir::Initializer::constant(0));
  nn::Reduction reduction = nn::Reduction::Mean;
  std::pair<Tensor, Tensor> forward(Tensor x, Tensor target) {
    const Tensor out = x + 1.0 + b;
    const Tensor loss = nn::identityLoss(5.0 * nn::square(out - target), reduction);
    return {loss, out};
  }
};

TEST(IdentityLoss, TrainsTheBiasOfTheGuide) {
  Bias net;
  auto model = trainingModel(net, Options());
  for (int i = 0; i < 100; ++i) {
    model(floatRow({1, 2, 3}), floatRow({3, 4, 5}));
  }
  EXPECT_NEAR(net.b.value().at(0), 1.0, 1e-4);
}

TEST(IdentityLoss, StartsWithOnesOrTheShareOfAnElement) {
  // The gradient of 5 (b - 1)² by b is -10 per element at b = 0, of which there are three.
  const auto stepOf = [](nn::Reduction reduction) {
    Bias net;
    net.reduction = reduction;
    auto model = trainingModel(net, Options(), optim::SGD(0.01));
    const auto [loss, out] = model(floatRow({1, 2, 3}), floatRow({3, 4, 5}));
    EXPECT_EQ(loss.shape(), reduction == nn::Reduction::None ? Shape{3} : Shape{});
    return net.b.value().at(0);
  };
  EXPECT_NEAR(stepOf(nn::Reduction::Mean), 0.1, 1e-6);
  EXPECT_NEAR(stepOf(nn::Reduction::Sum), 0.3, 1e-6);
  EXPECT_NEAR(stepOf(nn::Reduction::None), 0.3, 1e-6);
}

/// Two losses of one weight, w² and 3 w, both marked; joined or not.
struct TwoLosses : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(2));
  bool joined = true;
  std::vector<Tensor> forward(Tensor x) {
    const Tensor y = x * w;
    const Tensor first = nn::identityLoss(y * y, nn::Reduction::Sum);
    const Tensor second = nn::identityLoss(3.0 * y, nn::Reduction::Sum);
    return joined ? std::vector{first, second, nn::identityLoss(first + second), y}
                  : std::vector{first, second};
  }
};

TEST(IdentityLoss, OfSeveralLossesTheOneThatAllFeedIsMinimised) {
  TwoLosses net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const std::vector<HostTensor> results = model(floatRow({1}));
  EXPECT_THAT(results[0].toDoubles(), ElementsAre(4));
  EXPECT_THAT(results[1].toDoubles(), ElementsAre(6));
  EXPECT_THAT(results[2].toDoubles(), ElementsAre(10));
  // The gradient is 2 w + 3.
  EXPECT_NEAR(net.w.value().at(0), 2 - 0.1 * 7, 1e-6);
}

TEST(IdentityLoss, RefusesLossesThatFeedNoCommonOne) {
  TwoLosses net;
  net.joined = false;
  auto training = trainingModel(net, Options());
  EXPECT_THAT(messageOf([&] { training(floatRow({1})); }),
              AllOf(HasSubstr("several losses"), HasSubstr("does not feed")));
  // An inference model minimises nothing.
  auto inference = inferenceModel(net, Options());
  EXPECT_THAT(inference(floatRow({1}))[1].toDoubles(), ElementsAre(6));
}

struct NoLoss : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(2));
  Tensor forward(Tensor x) { return x * w; }
};

TEST(IdentityLoss, IsMissedByATrainingModelWithoutALoss) {
  NoLoss net;
  auto model = trainingModel(net, Options());
  EXPECT_THAT(messageOf([&] {
                model(floatRow({1, 2}));
              }),
              AllOf(HasSubstr("loss"), HasSubstr("identityLoss")));
}

struct CallsHost : nn::Module {
  nn::CPU host{[this](std::span<const HostTensor> in) {
                 ++calls;
                 if (in[0].at(0) < 0) {
                   throw std::runtime_error("the host refuses");
                 }
                 HostTensor out(in[0].type());
                 for (std::int64_t i = 0; i < out.shape().elements(); ++i) {
                   out.set(i, std::floor(in[0].at(i)));
                 }
                 return std::vector{out};
               },
               "floor"};
  int calls = 0;
  Tensor forward(Tensor x) { return host({x * 2.0}, {x.type()})[0] + 1.0; }
};

TEST(Cpu, RunsInsideOfAModelOncePerMicroBatch) {
  CallsHost net;
  auto model = inferenceModel(net, Options().deviceIterations(3).outputMode(OutputMode::All));
  EXPECT_THAT(model(floatRow({0.75, 1.25, 2.5})).toDoubles(), ElementsAre(2, 3, 6));
  EXPECT_EQ(net.calls, 3);
}

TEST(Cpu, GivesItsErrorsToTheCallerAndRunsAgain) {
  CallsHost net;
  auto model = inferenceModel(net, Options());
  EXPECT_THAT(messageOf<std::runtime_error>([&] { model(floatRow({-1})); }),
              HasSubstr("the host refuses"));
  EXPECT_THAT(model(floatRow({1.6F})).toDoubles(), ElementsAre(4));
}

struct HelpedProduct : nn::Module {
  nn::Linear fc{*this, "fc", 64, 64};
  double share = 0.5;
  Tensor forward(Tensor x) {
    return nn::setAvailableMemory(nn::relu(nn::setAvailableMemory(fc(x), share)), 0.0);
  }
};

/// 64 x 64 numbers thrice: 48 KiB, and a bias.
std::string warnings(double share, Options options) {
  HelpedProduct net;
  net.share = share;
  auto model = inferenceModel(net, options);
  return loggedBy([&] { model(HostTensor(DType::F32, Shape{64, 64})); });
}

TEST(AvailableMemory, ThatIsTooLittleIsAWarning) {
  const Options small = Options().memoryPerDevice("128KiB");
  EXPECT_THAT(warnings(0.25, small),
              AllOf(HasSubstr("needs 49152 bytes"), HasSubstr("available memory of 0.25")));
  EXPECT_EQ(warnings(0.5, small), "") << "a hint on the relu means nothing";
  EXPECT_EQ(warnings(0.0, Options()), "") << "a device without a limit";
}

struct Plain : nn::Module {
  nn::Linear fc{*this, "fc", 64, 64};
  Tensor forward(Tensor x) { return fc(x); }
};

TEST(AvailableMemory, IsSetForAllOpsOfADevice) {
  const auto logged = [](const std::string& device, double share) {
    Plain net;
    auto model = inferenceModel(
        net, Options().memoryPerDevice("128KiB").setAvailableMemoryProportion({{device, share}}));
    return loggedBy([&] { model(HostTensor(DType::F32, Shape{64, 64})); });
  };
  EXPECT_THAT(logged("IPU0", 0.25), HasSubstr("available memory of 0.25"));
  EXPECT_EQ(logged("IPU0", 0.5), "");
  EXPECT_EQ(logged("IPU1", 0.25), "");
  // What an op is given itself counts more.
  EXPECT_EQ(
      warnings(0.5,
               Options().memoryPerDevice("128KiB").setAvailableMemoryProportion({{"IPU0", 0.1}})),
      "");
}

TEST(AvailableMemory, OfADeviceRefusesOtherKeysAndShares) {
  const auto refusal = [](const std::string& key, double share) {
    return messageOf([&] { Options().setAvailableMemoryProportion({{key, share}}); });
  };
  for (const char* key : {"", "IPU", "ipu0", "0", "IPU-1", "IPU1x", "GPU0"}) {
    EXPECT_THAT(refusal(key, 0.5), HasSubstr("called IPU")) << key;
  }
  EXPECT_THAT(refusal("IPU0", 1.5), HasSubstr("between 0 and 1"));
  EXPECT_EQ(Options()
                .set("setAvailableMemoryProportion", "\"IPU0\", 0.5, \"IPU1\", 1")
                .device()
                .availableMemory.at(1),
            1.0);
}

/// loss = sum(w x): the gradient by w is x.
struct Weighted : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{3}}, ir::Initializer::constant(1));
  Tensor forward(Tensor x) { return nn::sum(x * w); }
};

HostTensor batch(std::initializer_list<float> values) {
  return HostTensor::of<float>(Shape{std::ssize(values) / 3, 3}, values);
}

TEST(GradientStatistics, AreLoggedPerWeightEveryFewUpdates) {
  Weighted net;
  Options options = Options().deviceIterations(2);
  options.training.logGradientStatistics(2);
  auto model = trainingModel(net, options, optim::SGD(0.0));
  const auto run = [&](const HostTensor& x) { return loggedBy([&] { model(x); }); };
  EXPECT_THAT(run(batch({3, -4, 0, 1, 1, 1})),
              AllOf(HasSubstr("update 0: w: norm 5, max 4, not finite 0 of 3"),
                    Not(HasSubstr("update 1"))));
  const float inf = INFINITY;
  EXPECT_THAT(run(batch({inf, NAN, -2, 1, 1, 1})),
              AllOf(HasSubstr("update 2: w: norm 2, max 2, not finite 2 of 3"),
                    Not(HasSubstr("update 3"))));
}

TEST(GradientStatistics, AreOfWhatTheUpdateSees) {
  // The mean over two micro-batches of two replicas each, once.
  Weighted net;
  Options options = Options().replicationFactor(2);
  options.training.gradientAccumulation(2).logGradientStatistics(1);
  auto model = trainingModel(net, options, optim::SGD(0.0));
  const std::string text = loggedBy([&] { model(batch({4, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 4})); });
  EXPECT_THAT(text, HasSubstr("update 0: w: norm 2.44949, max 2, not finite 0 of 3"));
  EXPECT_EQ(text.find("update 0"), text.rfind("update 0")) << "one replica logs";
}

TEST(GradientStatistics, ChangeNoBitAndAreOffByDefault) {
  const auto trained = [](std::int64_t period) {
    Weighted net;
    Options options;
    options.training.logGradientStatistics(period);
    auto model = trainingModel(net, options, optim::AdamW(0.1));
    const std::string text = loggedBy([&] {
      for (int i = 0; i < 3; ++i) {
        model(batch({0.1F, 0.2F, -0.3F}));
      }
    });
    EXPECT_EQ(text.empty(), period == 0);
    return net.w.value();
  };
  EXPECT_TRUE(trained(0).sameBits(trained(2)));
}

TEST(GradientStatistics, RefuseANegativePeriodAndTheCombinedVelocity) {
  Options options;
  EXPECT_THAT(messageOf([&] { options.training.logGradientStatistics(-1); }),
              HasSubstr("negative"));
  Weighted net;
  options.training.logGradientStatistics(1).gradientAccumulation(2);
  auto model = trainingModel(
      net, options, optim::SGD({.lr = 0.1, .momentum = 0.9, .useCombinedAccum = true}));
  EXPECT_THAT(messageOf<Unsupported>([&] {
                model(batch({1, 2, 3, 4, 5, 6}));
              }),
              HasSubstr("logGradientStatistics"));
}

/// How many of a micro-batch's rows are above 0 and their total, next to the loss.
struct WithMetrics : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
  std::tuple<Tensor, Tensor, Tensor> forward(Tensor x) {
    const Tensor y = x * w;
    const Tensor zero = nn::scalar(0);
    return {nn::sum(nn::cast(nn::greater(y, zero), DType::I32)), nn::sum(y), nn::mean(y * y)};
  }
};

double totalOf(const HostTensor& tensor) {
  const std::vector<double> values = tensor.toDoubles();
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Metrics, AsSumOutputsCountOverAllMicroBatchesOfACall) {
  for (const std::int64_t replicas : {1, 2}) {
    WithMetrics net;
    Options options = Options().replicationFactor(replicas).deviceIterations(2 / replicas);
    options.outputMode(OutputMode::Sum).training.gradientAccumulation(2);
    auto model = trainingModel(net, options, optim::SGD(0.0));
    const auto [above, total, loss] = model(floatRow({1, -2, 3, 4, -5, 6, 7, 8}));
    EXPECT_EQ(above.shape().elements(), replicas) << "one sum of each replica";
    EXPECT_EQ(totalOf(above), 6);
    EXPECT_EQ(totalOf(total), 22);
    EXPECT_EQ(totalOf(loss), (1 + 4 + 9 + 16 + 25 + 36 + 49 + 64) / 2.0);
  }
}

}  // namespace
}  // namespace sluice
