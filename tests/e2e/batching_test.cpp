// How a step's tensors are cut into micro-batches and how outputs come back: SPEC section 3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;
using testing::Line;
using testing::relativeDifference;

std::vector<double> numbers(std::initializer_list<double> values) {
  return values;
}

HostTensor oneToEight() {
  return HostTensor::of<float>(Shape{8}, {1, 2, 3, 4, 5, 6, 7, 8});
}

struct Echo : nn::Module {
  nn::Tensor forward(nn::Tensor x) { return x; }
};

HostTensor echoed(const Options& options) {
  Echo net;
  auto model = inferenceModel(net, options);
  return model(oneToEight());
}

TEST(OutputModes, OfInferenceReturnTheMicroBatchesTheyName) {
  const Options eight = Options().deviceIterations(8);
  const auto with = [](Options options, OutputMode mode, std::int64_t period = 1) {
    return echoed(options.outputMode(mode, period));
  };
  EXPECT_EQ(echoed(eight).toDoubles(), numbers({1, 2, 3, 4, 5, 6, 7, 8}));  // Default is All
  EXPECT_EQ(with(eight, OutputMode::All).toDoubles(), numbers({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(with(eight, OutputMode::EveryN, 4).toDoubles(), numbers({4, 8}));
  EXPECT_EQ(with(eight, OutputMode::EveryN, 8).toDoubles(), numbers({8}));
  EXPECT_EQ(with(eight, OutputMode::Final).toDoubles(), numbers({8}));
  EXPECT_EQ(with(eight, OutputMode::Sum).toDoubles(), numbers({36}));
  const Options four = Options().deviceIterations(4);
  EXPECT_EQ(with(four, OutputMode::EveryN, 2).toDoubles(), numbers({3, 4, 7, 8}));
  EXPECT_EQ(with(four, OutputMode::Final).toDoubles(), numbers({7, 8}));
  EXPECT_EQ(with(four, OutputMode::Sum).toDoubles(), numbers({16, 20}));
}

/// Returns its input, the sum over the micro-batch as a scalar, and a loss.
struct EchoTraining : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1};
  std::tuple<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    return {x, nn::sum(x) + 0.0 * nn::sum(nn::Tensor(fc.weight))};
  }
};

TEST(OutputModes, OfTrainingCountAccumulatedMicroBatches) {
  const auto run = [](OutputMode mode, std::int64_t period = 1) {
    EchoTraining net;
    Options options;
    options.deviceIterations(2).outputMode(mode, period);
    options.training.gradientAccumulation(2);
    auto model = trainingModel(net, options, optim::SGD(0.1));
    return model(oneToEight());
  };
  const auto [all, allSums] = run(OutputMode::All);
  EXPECT_EQ(all.toDoubles(), numbers({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(allSums.shape(), Shape{4});  // scalars become a vector
  EXPECT_EQ(allSums.toDoubles(), numbers({3, 7, 11, 15}));
  const auto [second, secondSums] = run(OutputMode::EveryN, 2);
  EXPECT_EQ(second.toDoubles(), numbers({3, 4, 7, 8}));
  EXPECT_EQ(secondSums.toDoubles(), numbers({7, 15}));
  const auto [lastOnly, lastSum] = run(OutputMode::EveryN, 4);
  EXPECT_EQ(lastOnly.toDoubles(), numbers({7, 8}));
  EXPECT_EQ(lastSum.shape(), Shape{});
  for (const OutputMode mode : {OutputMode::Final, OutputMode::Default}) {
    const auto [final, finalSum] = run(mode);
    EXPECT_EQ(final.toDoubles(), numbers({7, 8}));
    EXPECT_EQ(finalSum.shape(), Shape{});  // one value stays a scalar
    EXPECT_EQ(finalSum.at(0), 15);
  }
  const auto [sum, sumOfSums] = run(OutputMode::Sum);
  EXPECT_EQ(sum.toDoubles(), numbers({16, 20}));
  EXPECT_EQ(sumOfSums.shape(), Shape{});
  EXPECT_EQ(sumOfSums.at(0), 36);
}

struct Wide : nn::Module {
  nn::Linear fc{*this, "fc", 6, 20};
  nn::Tensor forward(nn::Tensor x) { return fc(x); }
};

TEST(OutputModes, KeepTheTrailingDimensions) {
  Wide net;
  const HostTensor x = testing::randomTensor(3, {DType::F32, Shape{10, 1, 5, 6}}, -1, 1);
  const auto run = [&](OutputMode mode, std::int64_t period = 1) {
    auto model = inferenceModel(net, Options().deviceIterations(10).outputMode(mode, period));
    return model(x);
  };
  const HostTensor all = run(OutputMode::All);
  EXPECT_EQ(all.shape(), (Shape{10, 1, 5, 20}));
  const HostTensor every = run(OutputMode::EveryN, 5);
  EXPECT_EQ(every.shape(), (Shape{2, 1, 5, 20}));
  EXPECT_TRUE(every.rows(0, 1).clone().sameBits(all.rows(4, 1).clone()));
  EXPECT_TRUE(every.rows(1, 1).clone().sameBits(all.rows(9, 1).clone()));
  EXPECT_TRUE(run(OutputMode::Final).sameBits(all.rows(9, 1).clone()));
  const HostTensor sum = run(OutputMode::Sum);
  EXPECT_EQ(sum.shape(), (Shape{1, 1, 5, 20}));
  HostTensor expected(sum.type());
  for (std::int64_t i = 0; i < 1000; ++i) {
    expected.set(i % 100, expected.at(i % 100) + all.at(i));
  }
  EXPECT_LT(relativeDifference(sum, expected), 1e-5);
}

HostTensor lossesOfAThousandUpdates(OutputMode mode, std::int64_t period = 1) {
  Line net;
  net.fc.weight.setValue(HostTensor(DType::F32, Shape{1, 1}));
  auto model = trainingModel(
      net, Options().deviceIterations(1000).outputMode(mode, period), optim::SGD(0.001));
  const HostTensor x = HostTensor::full({DType::F32, Shape{1000, 1}}, 1.0);
  return model(x, HostTensor::full(x.type(), 3.0)).second;
}

TEST(OutputModes, ReturnTheLossesOfAThousandUpdates) {
  const HostTensor all = lossesOfAThousandUpdates(OutputMode::All);
  ASSERT_EQ(all.shape(), Shape{1000});
  double previous = 1e9;
  for (std::int64_t part = 0; part < 10; ++part) {
    const double mean = meanOf(all.rows(100 * part, 100));
    EXPECT_LT(mean, previous) << part;
    previous = mean;
  }
  const HostTensor every = lossesOfAThousandUpdates(OutputMode::EveryN, 20);
  ASSERT_EQ(every.shape(), Shape{50});
  for (std::int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(every.at(i), all.at(20 * i + 19));
  }
  const HostTensor final = lossesOfAThousandUpdates(OutputMode::Final);
  EXPECT_EQ(final.shape(), Shape{});
  EXPECT_EQ(final.at(0), all.at(999));
  const HostTensor sum = lossesOfAThousandUpdates(OutputMode::Sum);
  EXPECT_EQ(sum.shape(), Shape{});
  EXPECT_NEAR(sum.at(0), 1000 * meanOf(all), 1e-2 * sum.at(0));
}

TEST(Batching, RefusesAFirstDimensionThatTheFactorsDoNotDivide) {
  Echo net;
  auto model = inferenceModel(net, Options().deviceIterations(3));
  const std::string message = messageOf([&] { model(HostTensor(DType::F32, Shape{10, 2})); });
  EXPECT_THAT(message, HasSubstr("[10, 2]"));
  EXPECT_THAT(message, HasSubstr("multiple of 3"));
  EXPECT_THAT(message, HasSubstr("deviceIterations 3"));
  EXPECT_THAT(message, HasSubstr("gradientAccumulation 1"));
  EchoTraining trained;
  Options options;
  options.deviceIterations(2).training.gradientAccumulation(3);
  auto training = trainingModel(trained, options, optim::SGD(0.1));
  EXPECT_THAT(messageOf([&] { training(HostTensor(DType::F32, Shape{8})); }),
              HasSubstr("multiple of 6 (deviceIterations 2 x gradientAccumulation 3)"));
  EXPECT_FALSE(training.isCompiled());
}

TEST(Batching, GivesAScalarToAllMicroBatches) {
  Echo net;
  auto model = inferenceModel(net, Options().deviceIterations(3));
  EXPECT_EQ(model(HostTensor::scalar(7.0F)).toDoubles(), (std::vector<double>{7, 7, 7}));
}

TEST(Batching, TakesAScalarWhenThereIsOneMicroBatch) {
  Echo net;
  auto model = inferenceModel(net, Options());
  const HostTensor out = model(HostTensor::scalar(3.0F));
  EXPECT_EQ(out.shape(), Shape{});
  EXPECT_EQ(out.at(0), 3.0);
}

TEST(Batching, RefusesAPeriodThatIsNoFactor) {
  Echo net;
  const auto make = [&](std::int64_t period) {
    inferenceModel(net, Options().deviceIterations(8).outputMode(OutputMode::EveryN, period));
  };
  EXPECT_THAT(messageOf([&] { make(3); }), HasSubstr("period 3, which must divide the 8"));
  EXPECT_THAT(messageOf([&] { make(9); }), HasSubstr("period 9"));
  EXPECT_THAT(messageOf([&] { make(0); }), HasSubstr("EveryN"));
  EXPECT_THAT(messageOf([&] { make(-2); }), HasSubstr("EveryN"));
  EXPECT_NO_THROW(make(4));
}

TEST(Batching, RefusesGradientAccumulationForInference) {
  Echo net;
  Options options;
  options.training.gradientAccumulation(2);
  const std::string message = messageOf([&] { inferenceModel(net, options); });
  EXPECT_THAT(message, HasSubstr("gradientAccumulation must be 1"));
  EXPECT_THAT(message, HasSubstr("deviceIterations"));
}

TEST(Batching, CompilesAnotherBatchSizeForTheSameState) {
  Line net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const HostTensor two = HostTensor::full({DType::F32, Shape{2, 1}}, 1.0);
  const HostTensor five = HostTensor::full({DType::F32, Shape{5, 1}}, 1.0);
  model(two, two);
  const double time = model.compilationTime();
  const std::size_t variables = model.session().state().plan().variables().size();
  const HostTensor before = net.fc.weight.value();
  EXPECT_EQ(model(five, five).first.shape(), (Shape{5, 1}));
  EXPECT_GT(model.compilationTime(), time);
  EXPECT_EQ(model.session().state().plan().variables().size(), variables);
  EXPECT_FALSE(net.fc.weight.value().sameBits(before));
  const double twice = model.compilationTime();
  model(two, two);
  model(five, five);
  EXPECT_EQ(model.compilationTime(), twice);  // both are kept
  EXPECT_EQ(model.updates(), 4);
}

TEST(Batching, RefusesAnotherTypeRankOrNumberOfInputs) {
  Line net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const HostTensor x = HostTensor::full({DType::F32, Shape{2, 1}}, 1.0);
  const std::vector<HostTensor> one = {x};
  EXPECT_THAT(messageOf([&] { model.run(one); }), HasSubstr("takes 2 inputs, got 1"));
  model(x, x);
  EXPECT_THAT(messageOf([&] { model.run(one); }), HasSubstr("takes 2 inputs, got 1"));
  EXPECT_THAT(messageOf([&] { model(cast(x, DType::F64), x); }), HasSubstr("f64[2, 1]"));
  EXPECT_THAT(messageOf([&] { model(x.reshaped(Shape{2, 1, 1}), x); }), HasSubstr("rank"));
  EXPECT_EQ(model.updates(), 1);
}

}  // namespace
}  // namespace sluice
