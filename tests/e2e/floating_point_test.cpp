// Floating-point exceptions and the search for the first number that is not finite.
#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::BlockedCnn;
using ::testing::HasSubstr;
using testing::messageOf;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Options checked() {
  Options options;
  options.precision.enableFloatingPointExceptions(true);
  return options;
}

/// A function of two numbers as a model.
struct Function : nn::Module {
  using F = std::function<nn::Tensor(const nn::Tensor&, const nn::Tensor&)>;
  explicit Function(F function) : f(std::move(function)) {}
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return f(x, y); }
  F f;
};

HostTensor number(float value) {
  return HostTensor::of<float>(Shape{1}, {value});
}

/// What the checked model says of f(x, y); without checks it has to run through.
std::string problemOf(const Function::F& f, float x, float y) {
  Function plain(f);
  inferenceModel(plain, Options())(number(x), number(y));
  Function net(f);
  auto model = inferenceModel(net, checked());
  return messageOf<FloatingPointError>([&] { model(number(x), number(y)); });
}

TEST(FloatingPointExceptions, RaiseOnInvalidOperationsOnly) {
  const auto div = [](const nn::Tensor& x, const nn::Tensor& y) { return x / y; };
  const auto mul = [](const nn::Tensor& x, const nn::Tensor& y) { return x * y; };
  const auto sub = [](const nn::Tensor& x, const nn::Tensor& y) { return x - y; };
  const auto root = [](const nn::Tensor& x, const nn::Tensor& y) { return nn::sqrt(x) + y; };
  const auto less = [](const nn::Tensor& x, const nn::Tensor& y) { return nn::less(x, y); };
  EXPECT_THAT(problemOf(div, 1, 0), AllOf(HasSubstr("div 'div'"), HasSubstr("inf")));
  EXPECT_THAT(problemOf(div, 0, 0), HasSubstr("NaN"));
  EXPECT_THAT(problemOf(mul, 0, kInf), AllOf(HasSubstr("mul 'mul'"), HasSubstr("NaN")));
  EXPECT_THAT(problemOf(mul, 1e30F, 1e30F), AllOf(HasSubstr("inf"), HasSubstr("overflow")));
  EXPECT_THAT(problemOf(sub, kInf, kInf), HasSubstr("sub 'sub' makes NaN"));
  EXPECT_THAT(problemOf(root, -1, 1), HasSubstr("sqrt 'sqrt' makes NaN"));
  EXPECT_THAT(problemOf(less, kNan, 1), HasSubstr("less 'less' compares with NaN"));
  for (const auto& f : std::vector<Function::F>{div, mul, sub, root, less}) {
    EXPECT_EQ(problemOf(f, 2, 1), "nothing thrown");
  }
  EXPECT_EQ(problemOf(mul, kNan, 2), "nothing thrown") << "it was one before";
  EXPECT_EQ(problemOf(mul, kInf, 2), "nothing thrown");
  EXPECT_EQ(problemOf(less, kInf, 1), "nothing thrown");
}

TEST(FloatingPointExceptions, SeeThroughChainsThatFusionHides) {
  // 1 / (1 / 0) is 0 again.
  const auto f = [](const nn::Tensor& x, const nn::Tensor& y) { return x / (x / y); };
  EXPECT_THAT(problemOf(f, 1, 0), HasSubstr("inf"));
}

TEST(FloatingPointExceptions, NameHalfOverflow) {
  const auto f = [](const nn::Tensor& x, const nn::Tensor& y) {
    return nn::cast(x * y, DType::F16);
  };
  EXPECT_THAT(problemOf(f, 300, 300), HasSubstr("cast 'cast' makes inf"));
  EXPECT_EQ(problemOf(f, 200, 300), "nothing thrown");
}

Options staged(bool check) {
  Options options = check ? checked() : Options();
  options.setExecutionStrategy(parallel::PipelinedExecution(
      {parallel::Stage("b0", "b1"), parallel::Stage("b2", "b3", "b4")}));
  options.training.gradientAccumulation(3);
  return options;
}

TEST(FloatingPointExceptions, ChangeNoBits) {
  EXPECT_EQ(testing::train<BlockedCnn>(staged(true), 3),
            testing::train<BlockedCnn>(staged(false), 3));
}

/// log(x) in the second stage: infinite where x is 0.
struct Logarithm : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1, {.bias = false}};
  Logarithm() { fc.weight.setValue(HostTensor::of<float>(Shape{1, 1}, {2.0F})); }
  nn::Tensor forward(nn::Tensor x) {
    nn::Tensor y;
    {
      const nn::Block block("A", 0);
      y = fc(x);
    }
    const nn::Block block("B", 1);
    return nn::mean(nn::log(y));
  }
};

TEST(FindFirstNonFinite, NamesOpStageAndMicroBatch) {
  Logarithm net;
  Options options;
  options.training.gradientAccumulation(4);
  auto model = trainingModel(net, options, optim::AdamW(0.1));
  const HostTensor good = HostTensor::of<float>(Shape{4, 1}, {1, 2, 3, 4});
  const HostTensor bad = HostTensor::of<float>(Shape{4, 1}, {1, 2, 0, 4});
  model.run({good});
  const auto before = testing::bitsOf(model.session());
  EXPECT_EQ(model.findFirstNonFinite({good}), std::nullopt);
  const std::optional<NonFinite> found = model.findFirstNonFinite({bad});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->op, "log 'log'");
  EXPECT_EQ(found->stage, 1);
  EXPECT_EQ(found->microBatch, 2);
  EXPECT_EQ(found->part, "forward 1");
  EXPECT_THAT(found->str(), HasSubstr("makes inf (element 0 of 1)"));
  EXPECT_EQ(testing::bitsOf(model.session()), before) << "the runs are undone";
  EXPECT_EQ(model.updates(), 1);
  model.run({good});
  EXPECT_EQ(model.updates(), 2);
}

TEST(FindFirstNonFinite, NamesInputsAndVariables) {
  Logarithm net;
  auto model = inferenceModel(net, Options().deviceIterations(3));
  const std::optional<NonFinite> input =
      model.findFirstNonFinite({HostTensor::of<float>(Shape{3, 1}, {1, 2, kNan})});
  ASSERT_TRUE(input.has_value());
  EXPECT_EQ(input->str(), "input 0 is nan at element 2 of 3 (micro-batch 2)");
  net.fc.weight.setValue(HostTensor::of<float>(Shape{1, 1}, {kInf}));
  const std::optional<NonFinite> variable =
      model.findFirstNonFinite({HostTensor::of<float>(Shape{3, 1}, {1, 2, 3})});
  ASSERT_TRUE(variable.has_value());
  EXPECT_EQ(variable->str(), "variable 'fc.weight' is inf at element 0 of 1");
}

/// Half a number, in float16; the gradient of the weight is the number.
struct HalfOf : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1, {.bias = false, .dtype = DType::F16}};
  HalfOf() { fc.weight.setValue(HostTensor::full(fc.weight.type(), 0.5)); }
  nn::Tensor forward(nn::Tensor x) { return nn::sum(fc(x)); }
};

TEST(FloatingPointExceptions, WatchSumsOverReplicas) {
  HalfOf net;
  auto model = trainingModel(net, checked().replicationFactor(2), optim::SGD(1e-9));
  const auto run = [&](double x) {
    return messageOf<FloatingPointError>([&] {
      model.run({HostTensor::full({DType::F16, Shape{2, 1}}, x)});
    });
  };
  EXPECT_EQ(run(30000), "nothing thrown");
  EXPECT_THAT(run(40000), AllOf(HasSubstr("replica_sum"), HasSubstr("makes inf")));
}

TEST(FindFirstNonFinite, FindsTheGradientThatOverflows) {
  // The forward pass is finite; 300 times a loss scaling of 512 is not, in float16.
  HalfOf net;
  auto model = trainingModel(net, Options(), optim::SGD({.lr = 0.01, .lossScaling = 512}));
  const HostTensor x = cast(HostTensor::of<float>(Shape{1, 1}, {300}), DType::F16);
  const std::optional<NonFinite> found = model.findFirstNonFinite({x});
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->op, HasSubstr("matmul 'grad/fc/matmul"));
  EXPECT_THAT(found->part, HasSubstr("backward"));
  EXPECT_EQ(found->microBatch, 0);
}

TEST(FindFirstNonFinite, RefusesInputsThatDoNotFit) {
  Logarithm net;
  auto model = inferenceModel(net, Options().deviceIterations(2));
  EXPECT_THAT(messageOf([&] {
                static_cast<void>(
                    model.findFirstNonFinite({HostTensor::of<float>(Shape{3, 1}, {1, 2, 3})}));
              }),
              HasSubstr("input 'input0'"));
}

/// The loss is the mean of x times a weight.
struct Scaled : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{}}, ir::Initializer::constant(1));
  nn::Tensor forward(const nn::Tensor& x) { return nn::mean(x * w); }
};

std::string warningsOf(const std::function<void()>& body) {
  ::testing::internal::CaptureStderr();
  body();
  return ::testing::internal::GetCapturedStderr();
}

TEST(NonFiniteLoss, IsWarnedOfOncePerModel) {
  Scaled net;
  auto model = trainingModel(net, Options(), optim::SGD(0.0));
  EXPECT_EQ(warningsOf([&] { model(number(1)); }), "");
  const std::string warning = warningsOf([&] { model(number(kInf)); });
  EXPECT_THAT(
      warning,
      AllOf(HasSubstr("the loss is inf after 2 updates"), HasSubstr("Model::findFirstNonFinite")));
  EXPECT_EQ(warningsOf([&] { model(number(kNan)); }), "");
}

TEST(NonFiniteLoss, IsSeenInStepsOfAnotherThreadAndInAnyIteration) {
  Scaled net;
  Options options;
  options.deviceIterations(3).outputMode(OutputMode::All);
  auto model = trainingModel(net, options, optim::SGD(0.0));
  const HostTensor middle = HostTensor::of<float>(Shape{3}, {1, kNan, 1});
  const std::string warning =
      warningsOf([&] { static_cast<void>(model.runAsync({middle}).get()); });
  EXPECT_THAT(warning, HasSubstr("the loss is nan"));
}

TEST(NonFiniteLoss, IsSeenOnItsWayToAQueue) {
  Scaled net;
  auto model = trainingModel(net, Options(), optim::SGD(0.0));
  const HostTensor numbers = HostTensor::of<float>(Shape{2, 1}, {1, kNan});
  data::InfeedQueue infeed(data::repeat(data::iterate(data::tensorDataset({numbers}))));
  data::OutfeedQueue outfeed;
  EXPECT_EQ(warningsOf([&] { model.run(infeed, outfeed); }), "");
  EXPECT_THAT(warningsOf([&] { model.run(infeed, outfeed); }),
              HasSubstr("the loss is nan after 2 updates"));
  EXPECT_EQ(outfeed.dequeue()[0].at(0), 1);
}

TEST(NonFiniteLoss, IsSeenInLoopsThatMinimizeIt) {
  Scaled net;
  for (const bool enqueued : {false, true}) {
    data::OutfeedQueue outfeed;
    auto train = compile(net, Options(), [&](const Tensors& in) {
      return repeat(
          2,
          [&](const Tensors& carry) {
            const nn::Tensor loss = nn::mean(carry[0] * net.w.use());
            if (enqueued) {
              enqueue(outfeed, loss);
            }
            minimize(optim::SGD(0.0), loss);
            return carry;
          },
          in);
    });
    EXPECT_THAT(warningsOf([&] { train(number(kNan)); }), HasSubstr("the loss is nan")) << enqueued;
  }
}

TEST(NonFiniteLoss, OfABuilderIsSeenWhereItIsAnOutputOrAnAnchor) {
  for (const bool anchored : {false, true}) {
    Builder b;
    const TensorId x = b.addInputTensor({DType::F32, Shape{1}}, "x");
    const TensorId w = b.addInitializedInputTensor(number(1), "w");
    const TensorId y = b.aiOnnx().mul(x, w);
    const TensorId loss = b.aiGraphcore().identityloss(y);
    b.addOutputTensor(y);
    const std::string warning = warningsOf([&] {
      if (!anchored) {
        // Nobody fetches the loss: nobody looks at it.
        trainingModel(b, loss, Options(), optim::SGD(0.0)).run({number(kNan)});
        return;
      }
      const DataFlow flow(1, {{loss, AnchorReturnType("All")}});
      TrainingSession session(b, flow, loss, optim::SGD(0.0));
      session.prepareDevice();
      NamedTensors arrays = session.initAnchorArrays();
      session.run({{{"x", number(kNan)}}, arrays});
    });
    EXPECT_EQ(warning.find("the loss is nan") != std::string::npos, anchored) << warning;
  }
}

TEST(NonFiniteLoss, OfInferenceIsTheCallersBusiness) {
  Scaled net;
  auto model = inferenceModel(net, Options());
  EXPECT_EQ(warningsOf([&] { model(number(kNan)); }), "");
}

TEST(FindingNonFinite, NeedsRowsAsATrainingStepDoes) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 3, 2};
    nn::Tensor forward(nn::Tensor x) { return nn::mean(fc(x)); }
  };
  Net net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  EXPECT_THAT(messageOf<InvalidArgument>([&] {
                model.findFirstNonFinite({HostTensor(DType::F32, Shape{0, 3})});
              }),
              HasSubstr("has no rows"));
}

}  // namespace
}  // namespace sluice
