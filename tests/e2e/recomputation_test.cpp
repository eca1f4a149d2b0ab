// Recomputation: what is kept of the forward pass, and that nothing else changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/networks.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

/// Three layers on device 0, of which the second's result may be a checkpoint, and one on device 1.
template <bool kCheckpoint>
struct Layers : nn::Module {
  nn::Linear fc1{*this, "fc1", 6, 6};
  nn::Linear fc2{*this, "fc2", 6, 6};
  nn::Linear fc3{*this, "fc3", 6, 6};
  nn::Linear fc4{*this, "fc4", 6, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    {
      const nn::Block block("B0", 0);
      x = nn::tanh(fc2(nn::tanh(fc1(x))));
      if (kCheckpoint) {
        x = nn::recomputationCheckpoint(x);
      }
      x = nn::tanh(fc3(x));
    }
    const nn::Block block("B1", 1);
    x = fc4(x);
    return {x, nn::crossEntropy(x, labels)};
  }
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{8, 6}}, {DType::I64, Shape{8}}};
  }
};

Options options(Recomputation type) {
  Options made;
  made.training.gradientAccumulation(6);
  made.recomputation(type);
  made.setExecutionStrategy(PipelinedExecution().schedule("gpipe"));
  return made;
}

/// Names of what kernels of device 0 write, or the host feeds, and keep for the backward pass.
template <class Net>
std::vector<std::string> stashes(Recomputation type) {
  Net net;
  auto model = trainingModel(net, options(type), optim::SGD(0.1));
  model.compile(testing::makeInputs(Net::inputs(), 0, 6));
  const program::Program& program = model.program();
  std::vector<std::string> names;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const program::Buffer& buffer = program.buffers[b];
    const bool received = std::ranges::any_of(
        program.transfers, [&](const program::Transfer& t) { return t.to.index() == b; });
    if (buffer.device == 0 && buffer.slots >= 6 && !received) {
      names.push_back(buffer.name);
    }
  }
  std::ranges::sort(names);
  return names;
}

TEST(Recomputation, KeepsInputsOfAStageWhatLeavesItAndCheckpoints) {
  using Plain = Layers<false>;
  using Marked = Layers<true>;
  EXPECT_THAT(stashes<Plain>(Recomputation::None), ElementsAre("input0", "tanh", "tanh", "tanh"));
  EXPECT_THAT(stashes<Plain>(Recomputation::Pipeline), ElementsAre("input0", "tanh"));
  EXPECT_THAT(stashes<Marked>(Recomputation::Pipeline), ElementsAre("input0", "tanh", "tanh"));
}

TEST(Recomputation, ChangesNoBit) {
  const auto without = testing::train<Layers<false>>(options(Recomputation::None), 4);
  EXPECT_EQ(testing::train<Layers<false>>(options(Recomputation::Pipeline), 4), without);
  EXPECT_EQ(testing::train<Layers<true>>(options(Recomputation::Pipeline), 4), without);
}

}  // namespace
}  // namespace sluice
