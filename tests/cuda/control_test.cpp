// Loops and branches on a GPU. It has no kernel that runs a body: loops are unrolled, and of a
// branch both bodies are computed and one is chosen, element by element. No part runs on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "tests/e2e/strategy_cases.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Tensors = std::vector<nn::Tensor>;

constexpr std::int64_t kIterations = 20;

struct WithControlFlow : nn::Module {
  nn::Linear first{*this, "first", 5, 8};
  nn::Linear tied{*this, "tied", 8, 8};
  nn::Linear last{*this, "last", 8, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x, const nn::Tensor& labels) {
    nn::Tensor h = nn::tanh(first(x));
    h = nn::forLoop(kIterations,
                    [&](const Tensors& in) { return Tensors{nn::tanh(tied(in[0]) + h)}; },
                    {h},
                    {.rollFrom = 2})[0];
    // What is not chosen is not a number: its gradient must not reach anything.
    h = nn::cond(
        nn::greater(nn::sum(x), nn::scalar(0)),
        [&](const Tensors& in) { return Tensors{nn::tanh(tied(in[0]))}; },
        {h},
        [&](const Tensors& in) { return Tensors{nn::sqrt(in[1] * -1.0) + in[0]}; },
        {h, nn::sum(x)})[0];
    h = last(h);
    return {h, nn::crossEntropy(h, labels)};
  }
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, 5}}, {DType::I64, Shape{4}}};
  }
};

struct Trained {
  std::vector<double> losses;
  std::string plan;
};

Trained trainedOn(const char* device) {
  WithControlFlow net;
  Options options;
  options.device(device).randomSeed(7).outputMode(OutputMode::All);
  options.training.gradientAccumulation(2);
  auto model = trainingModel(net, options, optim::SGD({.lr = 0.05, .momentum = 0.9}));
  Trained trained;
  for (int step = 0; step < 8; ++step) {
    const HostTensor loss = model.run(testing::makeInputs(net.inputs(), 2 * step, 2)).back();
    for (std::int64_t i = 0; i < loss.shape().elements(); ++i) {
      trained.losses.push_back(loss.at(i));
    }
  }
  trained.plan = model.explain();
  return trained;
}

TEST(CudaControlFlow, FollowsTheCpuWithoutTheHost) {
  const Trained cpu = trainedOn("cpu");
  const Trained gpu = trainedOn("cuda:0");
  ASSERT_EQ(cpu.losses.size(), gpu.losses.size());
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
    EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 2e-3 * cpu.losses[i]) << "micro-batch " << i;
  }
  EXPECT_THAT(gpu.plan, Not(HasSubstr("runs on the host")));
  EXPECT_EQ(trainedOn("cuda:0*2").losses, gpu.losses);
}

TEST(CudaControlFlow, OfMoreIterationsThanAreUnrolledIsRefused) {
  struct Long : nn::Module {
    nn::Tensor forward(const nn::Tensor& x) {
      return nn::forLoop(
          20'000, [](const Tensors& in) { return Tensors{in[0] * 0.5}; }, {x}, {.rollFrom = 2})[0];
    }
  } net;
  auto model = inferenceModel(net, Options().device("cuda:0"));
  EXPECT_THROW(model(HostTensor::full({DType::F32, Shape{2, 2}}, 1)), Error);
}

}  // namespace
}  // namespace sluice
