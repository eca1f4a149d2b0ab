// Continuous weight updates: the weights after every cycle of a small pipeline, number by number.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/sluice.h"
#include "tests/support/lane_text.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;

/// y = w1 (w0 x), loss = (y - t)^2 / 2, one weight per stage. In double precision, so that a test
/// can tell a wrong update from a rounding.
struct TwoWeights : nn::Module {
  nn::Parameter& w0 = addParameter("w0", {DType::F64, {1}}, ir::Initializer::constant(0.5));
  nn::Parameter& w1 = addParameter("w1", {DType::F64, {1}}, ir::Initializer::constant(0.5));

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

/// y = w0 x + w1 x, loss = y: the gradient of each weight is x, whatever the weights are.
struct SumOfWeights : nn::Module {
  nn::Parameter& w0 = addParameter("w0", {DType::F64, {1}}, ir::Initializer::constant(0.5));
  nn::Parameter& w1 = addParameter("w1", {DType::F64, {1}}, ir::Initializer::constant(0.25));

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor) {
    nn::Tensor y = x;
    {
      const nn::Block b("B0", 0);
      y = x * w0;
    }
    const nn::Block b("B1", 1);
    y = y + x * w1;
    return {y, nn::sum(y)};
  }
};

const std::vector<double> kData = {1, 2, -1, 0.5, 1.5};

struct Weights {
  double w0 = 0;
  double w1 = 0;
};

struct ContinuousRun {
  Weights weights;
  std::vector<std::string> passes;  ///< by device
};

template <class Net>
ContinuousRun runOn(const std::vector<double>& data,
                    double rate,
                    bool continuous,
                    std::int32_t accumulation,
                    Reduction reduction = Reduction::Mean) {
  Net net;
  const auto count = static_cast<std::int64_t>(data.size());
  Options options;
  options.continuousWeightUpdates(continuous);
  options.deviceIterations(count / accumulation);
  options.training.gradientAccumulation(accumulation).accumulationReduction(reduction);
  auto model = trainingModel(net, options, optim::SGD(rate));
  model(HostTensor::of<double>({count}, data), HostTensor::full({DType::F64, {count}}, 1));
  EXPECT_EQ(model.updates(), count / accumulation);
  return {{model.session().read("w0").at(0), model.session().read("w1").at(0)},
          {testing::passesOf(model.program(), 0), testing::passesOf(model.program(), 1)}};
}

Weights trainOn(const std::vector<double>& data,
                double rate,
                bool continuous,
                std::int32_t accumulation,
                Reduction reduction = Reduction::Mean) {
  return runOn<TwoWeights>(data, rate, continuous, accumulation, reduction).weights;
}

constexpr double kRoundings = 1e-12;  ///< of a few updates in double precision

TEST(Continuous, FollowsTheTraceOfStaleWeightsCycleByCycle) {
  // Both weights after each cycle. Stage 1 absorbs micro-batch m in cycle m + 1, stage 0 in cycle
  // m + 2, and no earlier cycle depends on m: so n micro-batches end with row n and row n + 1.
  const std::vector<Weights> rows = {{0.5, 0.5},
                                     {0.5, 0.5375},
                                     {0.5375, 0.58375},
                                     {0.58721875, 0.51915625},
                                     {0.511805546875, 0.5422815628662109},
                                     {0.5341416412149048, 0.5882910164108814},
                                     {0.576630199992744, 0.5882910164108814}};
  for (std::size_t n = 1; n <= kData.size(); ++n) {
    const std::vector<double> first(kData.begin(), kData.begin() + static_cast<std::ptrdiff_t>(n));
    const Weights end = trainOn(first, 0.1, true, 1);
    EXPECT_NEAR(end.w1, rows[n].w1, kRoundings) << n;
    EXPECT_NEAR(end.w0, rows[n + 1].w0, kRoundings) << n;
  }
}

TEST(Continuous, RunsTheCyclesOfTwoStagesWithoutAFlushBetweenUpdates) {
  const std::vector<std::string> passes = runOn<TwoWeights>(kData, 0.1, true, 1).passes;
  EXPECT_EQ(passes[0], "F0(0) F0(1) F0(2) B0(0) F0(3) B0(1) F0(4) B0(2) B0(3) B0(4)");
  EXPECT_EQ(passes[1], "F1(0) B1(0) F1(1) B1(1) F1(2) B1(2) F1(3) B1(3) F1(4) B1(4)");
}

TEST(Continuous, IsNotTheDefaultAndExactTrainingIsExact) {
  const Weights exact = trainOn(kData, 0.1, false, 1);
  EXPECT_NEAR(exact.w0, 0.5729418697279538, kRoundings);
  EXPECT_NEAR(exact.w1, 0.5729418697279538, kRoundings);
  const Weights mean = trainOn(kData, 0.1, false, 5);
  EXPECT_NEAR(mean.w0, 0.51875, kRoundings);
  EXPECT_NEAR(mean.w1, 0.51875, kRoundings);
  const Weights sum = trainOn(kData, 0.1, false, 5, Reduction::Sum);
  EXPECT_NEAR(sum.w0, 0.59375, kRoundings);
  EXPECT_NEAR(sum.w1, 0.59375, kRoundings);
}

TEST(Continuous, IsExactWhereNoGradientDependsOnAWeight) {
  const ContinuousRun stale = runOn<SumOfWeights>(kData, 0.125, true, 1);
  const ContinuousRun exact = runOn<SumOfWeights>(kData, 0.125, false, 1);
  // Five steps of 1/8 x; the data add up to 4. All numbers are sums of powers of two.
  EXPECT_EQ(stale.weights.w0, 0.5 - 0.125 * 4);
  EXPECT_EQ(stale.weights.w1, 0.25 - 0.125 * 4);
  EXPECT_EQ(exact.weights.w0, stale.weights.w0);
  EXPECT_EQ(exact.weights.w1, stale.weights.w1);
  // The second micro-batch began before the first was absorbed.
  EXPECT_TRUE(stale.passes[0].starts_with("F0(0) F0(1) F0(2) B0(0)")) << stale.passes[0];
}

TEST(Continuous, ComesCloserToExactTrainingLinearlyInTheRate) {
  const std::vector<std::pair<double, double>> expected = {{0.04, 9.782470714e-3},
                                                           {0.02, 4.741136104e-3},
                                                           {0.01, 2.332937887e-3},
                                                           {0.005, 1.157048368e-3}};
  for (const auto& [rate, difference] : expected) {
    std::vector<double> data;
    while (data.size() < static_cast<std::size_t>(std::lround(1 / rate))) {
      data.insert(data.end(), kData.begin(), kData.end());
    }
    data.resize(static_cast<std::size_t>(std::lround(1 / rate)));
    const Weights stale = trainOn(data, rate, true, 1);
    const Weights exact = trainOn(data, rate, false, 1);
    const double most = std::max(std::abs(stale.w0 - exact.w0), std::abs(stale.w1 - exact.w1));
    // The differences above have ten digits.
    EXPECT_NEAR(most, difference, 1e-12) << "rate " << rate;
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
  model(HostTensor::of<float>({5}, {1, 2, -1, 0.5, 1.5}), HostTensor::full({DType::F32, {5}}, 1));
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
