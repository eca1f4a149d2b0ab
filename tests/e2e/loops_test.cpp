// Loops in models that are trained. The oracle is the same model with its loops unrolled: weights
// and losses have the same bits after some updates, under every strategy.
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/ops/control_ops.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/remote_support.h"
#include "tests/e2e/runs_on_cpu.h"

namespace sluice {
namespace {

using testing::Bits;
using testing::differenceBetweenRounds;
using testing::trainWith;
using Tensors = std::vector<nn::Tensor>;

constexpr std::int64_t kSteps = 18;
constexpr std::int64_t kLoopUpdates = 3;
constexpr std::int64_t kUnrolled = kSteps + 10;

/// An LSTM over a sequence, a GRU of its own ops over the LSTM's outputs, from the end on, and a
/// layer that is applied before, inside and after a loop.
template <std::int64_t kRollFrom>
struct Recurrent : nn::Module {
  nn::LstmCell lstm{*this, "lstm", 5, 8};
  nn::Linear gates{*this, "gates", 16, 16};
  nn::Linear candidate{*this, "candidate", 16, 8};
  nn::Linear tied{*this, "tied", 8, 8};
  nn::Linear last{*this, "last", 8, 3};

  nn::Scanned gru(const Tensors& carried, const Tensors& rows) {
    const nn::Tensor& h = carried[0];
    const Tensors parts = nn::split(nn::sigmoid(gates(nn::concat({rows[0], h}, 1))), {8, 8}, 1);
    const nn::Tensor fresh = nn::tanh(candidate(nn::concat({rows[0], parts[0] * h}, 1)));
    const nn::Tensor next = parts[1] * h + (1.0 - parts[1]) * fresh;
    return {{next}, {next * rows[0]}};
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, const nn::Tensor& labels) {
    nn::LstmSequence sequence;
    {
      const nn::Block block("b0");
      x = nn::transpose(x, 0, 1);
      sequence = lstm.sequence(x, lstm.zeroState(x.shape()[1]), {.rollFrom = kRollFrom});
    }
    nn::Scanned scanned;
    {
      const nn::Block block("b1");
      scanned = nn::scan([&](const Tensors& c, const Tensors& r) { return gru(c, r); },
                         {sequence.last.h},
                         {sequence.outputs},
                         {.rollFrom = kRollFrom, .reverse = true});
    }
    const nn::Block block("b2");
    nn::Tensor h = nn::tanh(tied(scanned.carried[0] + nn::mean(scanned.rows[0], {0})));
    h = nn::forLoop(
        kSteps,
        [&](const Tensors& in) { return Tensors{nn::tanh(tied(nn::tanh(tied(in[0])) + h))}; },
        {h},
        {.rollFrom = kRollFrom})[0];
    h = last(tied(h));
    return {h, nn::crossEntropy(h, labels)};
  }
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, kSteps, 5}}, {DType::I64, Shape{4}}};
  }
};

Options accumulating() {
  Options options;
  options.training.gradientAccumulation(3);
  options.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2")}));
  return options;
}

template <std::int64_t kRollFrom>
Bits bitsWith(const Options& options) {
  return trainWith<Recurrent<kRollFrom>>(
      optim::SGD({.lr = 0.05, .momentum = 0.9}), options, kLoopUpdates);
}

struct LoopCase {
  std::string name;
  std::function<void(Options&)> set;
};
void PrintTo(const LoopCase& loopCase, std::ostream* out) {
  *out << loopCase.name;
}

std::vector<LoopCase> loopCases() {
  const std::vector<Stage> two = {"b0", Stage("b1", "b2")};
  const std::vector<Stage> three = {"b0", "b1", "b2"};
  std::vector<LoopCase> cases = {
      {"OneDevice", [](Options&) {}},
      {"TwoThreads", [](Options& o) { o.threads(2); }},
      {"ThreeThreads", [](Options& o) { o.threads(3); }},
      {"Pipelined", [=](Options& o) { o.setExecutionStrategy(PipelinedExecution(three)); }},
      {"Gpipe",
       [=](Options& o) { o.setExecutionStrategy(PipelinedExecution(two).schedule("gpipe")); }},
      {"Sharded", [=](Options& o) { o.setExecutionStrategy(ShardedExecution(three)); }},
      {"Recomputed", [](Options& o) { o.recomputation(Recomputation::Standard); }},
      {"RecomputedPipeline",
       [=](Options& o) {
         o.setExecutionStrategy(PipelinedExecution(three)).recomputation(Recomputation::Pipeline);
       }},
      {"SerialPhases",
       [](Options& o) {
         o.setExecutionStrategy(SerialPhasedExecution(std::vector<Phase>{"b0", "b1", "b2"}));
       }},
      {"Far", [](Options& o) { o.device("far"); }},
      {"FarPipeline",
       [=](Options& o) {
         o.device("far").setExecutionStrategy(PipelinedExecution(three)).threads(2);
       }},
  };
  if (!testing::runsOnCpu()) {  // far devices have the bits of the CPU
    std::erase_if(cases, [](const LoopCase& each) { return each.name.starts_with("Far"); });
  }
  return cases;
}

class LoopBits : public ::testing::TestWithParam<LoopCase> {};

TEST_P(LoopBits, AreThoseOfTheUnrolledModelOnOneDevice) {
  static const Bits kExpected = bitsWith<kUnrolled>(accumulating());
  Options options = accumulating();
  GetParam().set(options);
  EXPECT_EQ(differenceBetweenRounds(kExpected, bitsWith<16>(options)), "");
}

INSTANTIATE_TEST_SUITE_P(Matrix, LoopBits, ::testing::ValuesIn(loopCases()), [](const auto& test) {
  return test.param.name;
});

/// Micro-batches with a positive sum go one way, the others another way, which would give NaN.
struct Branching : nn::Module {
  nn::Linear first{*this, "first", 5, 8};
  nn::Linear left{*this, "left", 8, 8};
  nn::Linear last{*this, "last", 8, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x, const nn::Tensor& labels) {
    nn::Tensor h;
    nn::Tensor positive;
    {
      const nn::Block block("b0");
      h = first(x);
      positive = nn::greater(nn::sum(x), nn::scalar(0));
    }
    {
      const nn::Block block("b1");
      h = nn::cond(
          positive,
          [&](const Tensors& in) { return Tensors{nn::tanh(left(in[0]))}; },
          {h},
          [&](const Tensors& in) { return Tensors{nn::sqrt(in[1] * -1.0) + in[0]}; },
          {h, nn::sum(x)})[0];
    }
    const nn::Block block("b2");
    h = last(h);
    return {h, nn::crossEntropy(h, labels)};
  }
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, 5}}, {DType::I64, Shape{4}}};
  }
};

TEST(Branches, OfTrainingHaveTheSameBitsUnderEveryStrategy) {
  const auto bits = [](const Options& options) {
    return trainWith<Branching>(optim::SGD({.lr = 0.05, .momentum = 0.9}), options, kLoopUpdates);
  };
  const Bits expected = bits(accumulating());
  for (const LoopCase& loopCase : loopCases()) {
    Options options = accumulating();
    loopCase.set(options);
    EXPECT_EQ(differenceBetweenRounds(expected, bits(options)), "") << loopCase.name;
  }
}

TEST(Branches, LeaveTheWeightsOfTheOtherOneAlone) {
  Branching net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const HostTensor before = net.left.weight.value();
  const HostTensor x = HostTensor::full({DType::F32, Shape{4, 5}}, -0.5);
  model.run({x, HostTensor(DType::I64, Shape{4})});
  EXPECT_TRUE(net.left.weight.value().sameBits(before));
  EXPECT_TRUE(std::isfinite(net.first.weight.value().at(0)));
  model.run({HostTensor::full(x.type(), 0.5), HostTensor(DType::I64, Shape{4})});
  EXPECT_FALSE(net.left.weight.value().sameBits(before));
}

TEST(Loops, AreOneKernelInEachPass) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kNamesCpuKernels;
  }
  Recurrent<16> net;
  auto model = trainingModel(net, accumulating(), optim::SGD(0.1));
  model.compile(testing::makeInputs(Recurrent<16>::inputs(), 0, 3));
  std::size_t loops = 0;
  std::size_t calls = 0;
  for (const program::Segment& segment : model.program().segments) {
    for (const device::KernelCall& call : segment.calls) {
      loops += call.def == &ops::kLoop ? 1 : 0;
      calls += 1;
    }
  }
  EXPECT_EQ(loops, 6U);
  EXPECT_LT(calls, 150U);
}

}  // namespace
}  // namespace sluice
