// Whole steps as captures of a GPU: that they are made, where they are asked for.
#include <cstdlib>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/device_group.h"

namespace sluice::devices::cuda {
namespace {

using sluice::testing::DeviceGroup;
using sluice::testing::inputsOf;
using sluice::testing::PromptFeed;
using sluice::testing::PromptSink;

/// Two shares of one GPU.
std::vector<std::unique_ptr<device::Device>> twoShares() {
  std::vector<std::unique_ptr<device::Device>> made;
  for (int number : {0, 1}) {
    made.push_back(
        makeDevice({.name = {.kind = "cuda", .index = 0, .shares = 2}, .number = number}));
  }
  return made;
}

struct Trained {
  bool isCaptured = false;
  std::vector<HostTensor> losses;
};

/// Several steps of a training: the first ones are not captured.
Trained trained(const char* wholeSteps) {
  ::setenv("SLUICE_CUDA_WHOLE_STEPS", wholeSteps, 1);
  const ir::Graph graph = sluice::testing::chainModel({.blocks = 2, .dropout = true});
  DeviceGroup group(twoShares());
  const auto loaded = group.load(group.lower(graph, {.deviceOfStage = {0, 1}, .microBatches = 4}));
  Trained result;
  for (int step = 0; step < 5; ++step) {
    PromptFeed feed(loaded->program(), inputsOf(graph, 4));
    PromptSink sink(loaded->program());
    group.engine->run(*loaded, {.feed = feed, .sink = sink, .firstMicroBatch = 4 * step});
    for (const auto& [microBatch, loss] : sink.results.at("loss")) {
      result.losses.push_back(loss);
    }
  }
  result.isCaptured = loaded->isStepCaptured();
  ::unsetenv("SLUICE_CUDA_WHOLE_STEPS");
  return result;
}

TEST(CudaStepCapture, IsMadeWhereItIsAskedFor) {
  const Trained whole = trained("1");
  const Trained single = trained("0");
  EXPECT_TRUE(whole.isCaptured);
  EXPECT_FALSE(single.isCaptured);
  ASSERT_EQ(whole.losses.size(), single.losses.size());
  for (std::size_t i = 0; i < whole.losses.size(); ++i) {
    EXPECT_TRUE(whole.losses[i].sameBits(single.losses[i])) << "loss " << i;
  }
}

}  // namespace
}  // namespace sluice::devices::cuda
