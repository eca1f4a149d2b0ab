// Recomputation: what is kept of the forward pass, and that nothing else changes.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/program/program.h"
#include "tests/e2e/deep_gpt.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/runs_on_cpu.h"

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
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kNamesCpuKernels;
  }
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

/// A first stage of two tanh layers, whose results may be checkpoints, and of a third layer whose
/// result its own backward pass does not read; the second stage is one layer and the loss.
template <int kCheckpoints>
struct Checkpointed : nn::Module {
  nn::Linear fc1{*this, "fc1", 6, 6};
  nn::Linear fc2{*this, "fc2", 6, 6};
  nn::Linear fc3{*this, "fc3", 6, 6};
  nn::Linear fc4{*this, "fc4", 6, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    {
      const nn::Block block("B0", 0);
      x = nn::tanh(fc1(x));
      if (kCheckpoints > 0) {
        x = nn::recomputationCheckpoint(x);
      }
      x = nn::tanh(fc2(x));
      if (kCheckpoints > 1) {
        x = nn::recomputationCheckpoint(x);
      }
      x = fc3(x);
    }
    const nn::Block block("B1", 1);
    x = fc4(x);
    return {x, nn::crossEntropy(x, labels)};
  }
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{8, 6}}, {DType::I64, Shape{8}}};
  }
};

/// Names of what the backward pass of device 0 finds in memory: made by the forward pass, or fed.
template <class Net>
std::vector<std::string> keptFor(Recomputation type) {
  Net net;
  Options made = options(type);
  made.setExecutionStrategy(PipelinedExecution().schedule("popart"));
  auto model = trainingModel(net, made, optim::SGD(0.1));
  model.compile(testing::makeInputs(Net::inputs(), 0, 6));
  const program::Program& program = model.program();
  std::set<std::int32_t> before;
  for (const program::Port& feed : program.feeds) {
    before.insert(feed.buffer.value);
  }
  std::set<std::int32_t> read;
  for (const program::Segment& segment : program.segments) {
    for (const device::KernelCall& call : segment.calls) {
      if (segment.kind == program::SegmentKind::Forward) {
        before.insert(call.outputs.begin(), call.outputs.end());
      } else if (segment.kind == program::SegmentKind::Backward && segment.device == 0) {
        read.insert(call.inputs.begin(), call.inputs.end());
      }
    }
  }
  std::vector<std::string> names;
  for (const std::int32_t b : read) {
    if (before.contains(b)) {
      names.push_back(program.buffers[static_cast<std::size_t>(b)].name);
    }
  }
  std::ranges::sort(names);
  return names;
}

TEST(Recomputation, OfAPipelineKeepsTheInputAndOneTensorPerCheckpoint) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kNamesCpuKernels;
  }
  constexpr Recomputation kPipeline = Recomputation::Pipeline;
  EXPECT_THAT(keptFor<Checkpointed<0>>(Recomputation::None), ElementsAre("input0", "tanh", "tanh"));
  EXPECT_THAT(keptFor<Checkpointed<0>>(kPipeline), ElementsAre("input0"));
  EXPECT_THAT(keptFor<Checkpointed<1>>(kPipeline), ElementsAre("input0", "tanh"));
  EXPECT_THAT(keptFor<Checkpointed<2>>(kPipeline), ElementsAre("input0", "tanh", "tanh"));
  const auto without = testing::train<Checkpointed<0>>(options(Recomputation::None), 4);
  EXPECT_EQ(testing::train<Checkpointed<0>>(options(kPipeline), 4), without);
  EXPECT_EQ(testing::train<Checkpointed<1>>(options(kPipeline), 4), without);
  EXPECT_EQ(testing::train<Checkpointed<2>>(options(kPipeline), 4), without);
}

struct DeepRun {
  std::size_t transientBytes = 0;
  std::size_t repeated = 0;  ///< calls of the backward pass that make a value again
  std::size_t repeatedNorms = 0;
  testing::Bits bits;
};

DeepRun deepRun(Recomputation type) {
  testing::DeepGpt net(6, 16, 2, 16);
  Options options;
  options.training.gradientAccumulation(2);
  options.recomputation(type);
  std::vector<std::string> blocks;
  for (int i = 0; i < 6; ++i) {
    blocks.push_back("layer" + std::to_string(i));
  }
  blocks.emplace_back("head");
  options.setExecutionStrategy(ShardedExecution(std::vector<Stage>{Stage(blocks)}));
  auto model = trainingModel(net, options, optim::AdamW(1e-2));
  DeepRun run;
  for (int i = 0; i < 2; ++i) {
    model.run(testing::makeInputs(net.inputs(), 2 * i, 2));
  }
  run.bits = testing::bitsOf(model.session());
  run.transientBytes = model.program().devices[0].transientBytes;
  for (const program::Segment& segment : model.program().segments) {
    for (const device::KernelCall& call : segment.calls) {
      run.repeated += call.name.starts_with("again/") ? 1 : 0;
      run.repeatedNorms +=
          call.name.starts_with("again/") && call.def->name == "layer_norm" ? 1 : 0;
    }
  }
  return run;
}

TEST(Recomputation, OfEveryTypeKeepsLessAndChangesNoBit) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  const DeepRun none = deepRun(Recomputation::None);
  const DeepRun pipeline = deepRun(Recomputation::Pipeline);
  const DeepRun standard = deepRun(Recomputation::Standard);
  const DeepRun norms = deepRun(Recomputation::NormOnly);
  const DeepRun all = deepRun(Recomputation::All);
  for (const DeepRun* run : {&pipeline, &standard, &norms, &all}) {
    EXPECT_EQ(run->bits, none.bits);
  }
  // The one stage is the last one: a pipeline keeps everything.
  EXPECT_EQ(pipeline.repeated, 0U);
  EXPECT_EQ(pipeline.transientBytes, none.transientBytes);
  EXPECT_EQ(norms.repeatedNorms, 12U);
  EXPECT_EQ(norms.repeated, norms.repeatedNorms);
  EXPECT_LT(norms.transientBytes, none.transientBytes);
  // All makes the whole forward pass again at once; Standard one part of it at a time.
  EXPECT_GT(all.repeated, standard.repeated);
  EXPECT_GT(standard.repeated, norms.repeated);
  EXPECT_LT(standard.transientBytes, none.transientBytes * 2 / 3);
  EXPECT_LT(standard.transientBytes, all.transientBytes);
}

}  // namespace
}  // namespace sluice
