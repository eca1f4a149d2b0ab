// One model on a GPU, alone and cut over shares of it in every way: the same bits in every
// variable.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "tests/e2e/strategy_cases.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::differenceBetweenRounds;
using ::testing::HasSubstr;
using testing::onOneDevice;
using testing::ResidualMlp;
using testing::StrategyCase;
using testing::trained;

constexpr const char* kShares = "cuda:0*8";

class CudaStrategies : public ::testing::TestWithParam<StrategyCase> {};

template <class Net>
void expectBitsOfOneGpu(const StrategyCase& strategy) {
  Options cut = onOneDevice();
  strategy.set(cut.device(kShares));
  Options whole = onOneDevice();
  whole.device(kShares).replicationFactor(cut.replicationFactor());
  EXPECT_EQ(differenceBetweenRounds(trained<Net>(whole), trained<Net>(cut)), "");
}

TEST_P(CudaStrategies, GiveTheBitsOfOneGpu) {
  expectBitsOfOneGpu<BlockedCnn>(GetParam());
  expectBitsOfOneGpu<ResidualMlp>(GetParam());
  expectBitsOfOneGpu<BlockedGpt>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Matrix,
                         CudaStrategies,
                         ::testing::ValuesIn(testing::strategyCases()),
                         [](const auto& tested) { return tested.param.name; });

/// While it lives, an environment variable is set for new devices.
class Setting {
 public:
  explicit Setting(const char* name) : name_(name) { ::setenv(name_, "1", 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

/// Makes devices capture nothing and wait after every kernel.
constexpr const char* kSynchronised = "SLUICE_CUDA_SYNC";
/// Makes devices capture short steps as a whole.
constexpr const char* kWholeSteps = "SLUICE_CUDA_WHOLE_STEPS";

TEST(CudaCaptures, GiveTheBitsOfSingleLaunches) {
  Options options = onOneDevice();
  options.device(kShares)
      .setExecutionStrategy(PipelinedExecution(testing::threeStages()))
      .deviceIterations(testing::kUpdates);
  const testing::Bits captured = trained<BlockedGpt>(options);
  const Setting synchronised(kSynchronised);
  EXPECT_EQ(differenceBetweenRounds(trained<BlockedGpt>(options), captured), "");
}

/// The losses of a few updates of the MNIST network.
std::vector<double> mnistLosses(const char* device) {
  testing::MnistNet net;
  Options options;
  options.device(device).randomSeed(7).outputMode(OutputMode::All);
  options.training.gradientAccumulation(2);
  auto model = trainingModel(net, options, optim::SGD({.lr = 0.05, .momentum = 0.9}));
  const std::vector<TensorType> types = {{DType::F32, Shape{8, 1, 28, 28}}, {DType::I64, Shape{8}}};
  std::vector<double> losses;
  for (int step = 0; step < 8; ++step) {
    const std::vector<HostTensor> out = model.run(testing::makeInputs(types, 0, 2));
    losses.push_back(out.back().at(0));
  }
  return losses;
}

/// What it drops and how it is trained differ from step to step.
struct DroppingNet : nn::Module {
  nn::Linear first{*this, "first", 12, 16};
  nn::Linear last{*this, "last", 16, 3};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    {
      const nn::Block block("B1");
      x = nn::dropout(nn::relu(first(x)), 0.5);
    }
    const nn::Block block("B2");
    x = last(x);
    return {x, nn::crossEntropy(x, labels)};
  }
};

/// All outputs of seven steps, of which the last ones are captured as a whole.
std::vector<HostTensor> droppingSteps(const char* device) {
  DroppingNet net;
  Options options;
  options.device(device).randomSeed(7).outputMode(OutputMode::All).deviceIterations(2);
  options.setExecutionStrategy(PipelinedExecution("B1", "B2"));
  options.training.gradientAccumulation(4);
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::vector<TensorType> types = {{DType::F32, Shape{5, 12}}, {DType::I64, Shape{5}}};
  std::vector<HostTensor> all;
  for (int step = 0; step < 7; ++step) {
    for (HostTensor& out : model.run(testing::makeInputs(types, step, 8))) {
      all.push_back(std::move(out));
    }
  }
  return all;
}

TEST(CudaCaptures, OfWholeStepsGiveTheBitsOfSingleLaunches) {
  std::vector<HostTensor> captured;
  std::vector<double> mnist;
  {
    const Setting whole(kWholeSteps);
    captured = droppingSteps("cuda:0*2");
    mnist = mnistLosses("cuda:0");
  }
  const Setting synchronised(kSynchronised);
  const std::vector<HostTensor> single = droppingSteps("cuda:0*2");
  ASSERT_EQ(captured.size(), single.size());
  for (std::size_t i = 0; i < single.size(); ++i) {
    EXPECT_TRUE(captured[i].sameBits(single[i])) << "output " << i;
  }
  EXPECT_FALSE(single[0].sameBits(single[2])) << "steps that are all alike show nothing";
  EXPECT_EQ(mnistLosses("cuda:0"), mnist);
}

TEST(CudaTraining, OfTheMnistNetworkFollowsTheCpu) {
  const std::vector<double> cpu = mnistLosses("cpu");
  const std::vector<double> gpu = mnistLosses("cuda:0");
  ASSERT_EQ(cpu.size(), gpu.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    EXPECT_NEAR(gpu[i], cpu[i], 1e-3 * cpu[i]) << "step " << i;
  }
  EXPECT_LT(gpu.back(), gpu.front());
  EXPECT_EQ(mnistLosses("cuda:0*2"), gpu);
}

/// Composites that the CPU replaces by their parts are kernels here, and calls in the file.
TEST(CudaTraining, GoesOnFromAnExecutable) {
  const testing::TempFolder folder;
  const std::vector<HostTensor> inputs =
      testing::makeInputs({{DType::F32, Shape{8, 1, 28, 28}}, {DType::I64, Shape{8}}}, 0, 1);
  Options options;
  options.device("cuda:0").randomSeed(7);
  testing::MnistNet net;
  auto saved = trainingModel(net, options, optim::SGD(0.05));
  saved.compileAndExport(folder / "mnist.slx", inputs);
  testing::MnistNet same;
  auto model = trainingModel(same, options, optim::SGD(0.05));
  model.loadExecutable(folder / "mnist.slx", OtherTarget::Refuse);
  EXPECT_TRUE(model.run(inputs).back().sameBits(saved.run(inputs).back()));
  EXPECT_EQ(model.compilationTime(), 0);
}

TEST(CudaDevices, LeaveToTheHostWhatOnlyItCanDo) {
  const auto [expected, plan] = testing::withHostOp("cpu");
  const auto [y, gpuPlan] = testing::withHostOp("cuda:0");
  for (std::int64_t i = 0; i < y.shape().elements(); ++i) {
    EXPECT_NEAR(y.at(i), expected.at(i), 1e-5);
  }
  EXPECT_THAT(gpuPlan, AllOf(HasSubstr("host_call"), HasSubstr("runs on the host")));
}

TEST(CudaDevices, WorkTogetherWithTheCpu) {
  Options mixed = onOneDevice();
  mixed.device("cpu,cuda:0*2")
      .setExecutionStrategy(PipelinedExecution(testing::threeStages()).schedule("1f1b"));
  Options again = mixed.clone();
  again.setExecutionStrategy(ShardedExecution(testing::threeStages()));
  EXPECT_EQ(differenceBetweenRounds(trained<BlockedCnn>(mixed), trained<BlockedCnn>(again)), "");
}

TEST(CudaDevices, RefuseABudgetLargerThanTheGpu) {
  testing::Mlp net;
  Options options;
  options.device("cuda:0").memoryPerDevice("100000GB");
  EXPECT_THROW(trainingModel(net, options, optim::SGD(0.1)), OutOfMemory);
}

}  // namespace
}  // namespace sluice
