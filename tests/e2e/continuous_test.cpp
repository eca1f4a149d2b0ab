// Continuous weight updates: the stale-weight behaviour that SPEC 2D states, number by number.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;

/// y = w1 (w0 x), loss = (y - t)^2 / 2, one weight per stage.
struct TwoWeights : nn::Module {
  nn::Parameter& w0 = addParameter("w0", {DType::F32, {1}}, ir::Initializer::constant(0.5));
  nn::Parameter& w1 = addParameter("w1", {DType::F32, {1}}, ir::Initializer::constant(0.5));

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor t) {
    nn::Tensor y = x;
    {
      const nn::Block b("B0", 0);
      y = x * w0;
    }
    const nn::Block b("B1", 1);
    y = y * w1;
    const nn::Tensor error = y - t;
    return {y, nn::mean(error * error) * 0.5};
  }
};

const std::vector<float> kData = {1, 2, -1, 0.5, 1.5};

struct Weights {
  double w0 = 0;
  double w1 = 0;
};

Weights trainOn(std::vector<float> data,
                double rate,
                bool continuous,
                std::int32_t accumulation,
                Reduction reduction = Reduction::Mean) {
  TwoWeights net;
  const auto count = static_cast<std::int64_t>(data.size());
  Options options;
  options.continuousWeightUpdates(continuous);
  options.deviceIterations(count / accumulation);
  options.training.gradientAccumulation(accumulation).accumulationReduction(reduction);
  auto model = trainingModel(net, options, optim::SGD(rate));
  model(HostTensor::of<float>({count}, data), HostTensor::full({DType::F32, {count}}, 1));
  EXPECT_EQ(model.updates(), count / accumulation);
  return {model.session().read("w0").at(0), model.session().read("w1").at(0)};
}

TEST(Continuous, FollowsTheTraceOfStaleWeights) {
  const Weights all = trainOn(kData, 0.1, true, 1);
  EXPECT_NEAR(all.w0, 0.576630199992744, 1e-6);
  EXPECT_NEAR(all.w1, 0.5882910164108814, 1e-6);
  // Of the first two, stage 0 ran both forward with its first weight.
  const Weights two = trainOn({1, 2}, 0.1, true, 1);
  EXPECT_NEAR(two.w1, 0.58375, 1e-6);
  EXPECT_NEAR(two.w0, 0.58721875, 1e-6);
}

TEST(Continuous, IsNotTheDefaultAndExactTrainingIsExact) {
  const Weights exact = trainOn(kData, 0.1, false, 1);
  EXPECT_NEAR(exact.w0, 0.5729418697279538, 1e-6);
  EXPECT_NEAR(exact.w1, 0.5729418697279538, 1e-6);
  const Weights mean = trainOn(kData, 0.1, false, 5);
  EXPECT_NEAR(mean.w0, 0.51875, 1e-6);
  EXPECT_NEAR(mean.w1, 0.51875, 1e-6);
  const Weights sum = trainOn(kData, 0.1, false, 5, Reduction::Sum);
  EXPECT_NEAR(sum.w0, 0.59375, 1e-6);
  EXPECT_NEAR(sum.w1, 0.59375, 1e-6);
}

TEST(Continuous, ComesCloserToExactTrainingLinearlyInTheRate) {
  const std::vector<std::pair<double, double>> expected = {{0.04, 9.782470714e-3},
                                                           {0.02, 4.741136104e-3},
                                                           {0.01, 2.332937887e-3},
                                                           {0.005, 1.157048368e-3}};
  for (const auto& [rate, difference] : expected) {
    std::vector<float> data;
    while (data.size() < static_cast<std::size_t>(std::lround(1 / rate))) {
      data.insert(data.end(), kData.begin(), kData.end());
    }
    data.resize(static_cast<std::size_t>(std::lround(1 / rate)));
    const Weights stale = trainOn(data, rate, true, 1);
    const Weights exact = trainOn(data, rate, false, 1);
    const double most = std::max(std::abs(stale.w0 - exact.w0), std::abs(stale.w1 - exact.w1));
    EXPECT_NEAR(most, difference, 3e-6) << "rate " << rate;
  }
}

/// TwoWeights with weights of a rank that is given.
struct RankedWeights : nn::Module {
  explicit RankedWeights(Shape of) : shape(std::move(of)) {}

  Shape shape;
  nn::Parameter& w0 = addParameter("w0", {DType::F32, shape}, ir::Initializer::constant(0.5));
  nn::Parameter& w1 = addParameter("w1", {DType::F32, shape}, ir::Initializer::constant(0.5));

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor t) {
    nn::Tensor y = x;
    {
      const nn::Block b("B0", 0);
      y = x * w0;
    }
    const nn::Block b("B1", 1);
    y = y * w1;
    const nn::Tensor error = y - t;
    return {y, nn::mean(error * error) * 0.5};
  }
};

/// The weights' bits after two calls of five and of three micro-batches, which are two programs.
template <class Rule>
std::vector<double> trainRanked(const Shape& shape, const Rule& rule) {
  RankedWeights net(shape);
  Options options;
  options.continuousWeightUpdates(true);
  options.deviceIterations(5);
  auto model = trainingModel(net, options, rule);
  model(HostTensor::of<float>({5}, kData), HostTensor::full({DType::F32, {5}}, 1));
  model(HostTensor::of<float>({10}, {1, 2, -1, 0.5, 1.5, 1, 2, -1, 0.5, 1.5}),
        HostTensor::full({DType::F32, {10}}, 1));
  EXPECT_EQ(model.program().devices.size(), 2U);
  EXPECT_EQ(model.session().state().plan().find("w1")->device, 1);
  return {model.session().read("w0").at(0), model.session().read("w1").at(0)};
}

TEST(Continuous, WeightsOfRank0AreUpdatedWhereTheyAre) {
  const auto same = [](const auto& rule) {
    EXPECT_EQ(trainRanked(Shape{}, rule), trainRanked(Shape{1}, rule));
  };
  same(optim::SGD(0.1));
  same(optim::SGD(optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .weightDecay = 0.01}));
  same(optim::RMSprop(optim::RmsPropOptions{.lr = 0.01, .momentum = 0.9}));
  // Adam's step count serves all weights, so no rank makes its updates independent.
  EXPECT_THROW(trainRanked(Shape{}, optim::AdamW(0.01)), Unsupported);
  EXPECT_THROW(trainRanked(Shape{1}, optim::AdamW(0.01)), Unsupported);
}

TEST(Continuous, RefusesAccumulation) {
  TwoWeights net;
  Options options;
  options.continuousWeightUpdates(true);
  options.training.gradientAccumulation(2);
  try {
    trainingModel(net, options, optim::SGD(0.1));
    FAIL() << "accumulation was accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("gradientAccumulation must be 1"));
  }
}

}  // namespace
}  // namespace sluice
