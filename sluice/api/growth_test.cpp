// Compiling takes work in proportion to the model: counted in allocations and bytes, not in
// seconds. Whatever looks at every pair of something, or makes something again for each of
// something, shows when the model is twice as large.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"
#include "tests/support/allocation_count.h"

namespace sluice {
namespace {

/// Layers one after the other, without blocks or with one for each.
struct Chain : nn::Module {
  Chain(int count, bool activation, bool blocks) : activation_(activation), blocks_(blocks) {
    for (int i = 0; i < count; ++i) {
      layers_.push_back(std::make_unique<nn::Linear>(*this, fmt::format("layer{}", i), 8, 8));
    }
  }
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      x = blocks_ ? inBlock(i, x) : layer(i, x);
    }
    const std::size_t last = layers_.size() - 1;
    if (!blocks_) {
      return nn::mseLoss(layer(last, x), y);
    }
    const nn::Block block(fmt::format("block{}", last));
    return nn::mseLoss(layer(last, x), y);
  }

 private:
  nn::Tensor layer(std::size_t i, const nn::Tensor& x) {
    const nn::Tensor z = (*layers_[i])(x);
    return activation_ ? nn::relu(z) : z;
  }
  nn::Tensor inBlock(std::size_t i, const nn::Tensor& x) {
    const nn::Block block(fmt::format("block{}", i));
    return layer(i, x);
  }

  bool activation_;
  bool blocks_;
  std::vector<std::unique_ptr<nn::Linear>> layers_;
};

struct Work {
  std::int64_t allocations = 0;
  std::int64_t bytes = 0;
};

template <class Optimizer>
Work compileWork(Chain& net, const Options& options, const Optimizer& optimizer) {
  auto model = trainingModel(net, options, optimizer);
  const std::vector<TensorType> types(2, {DType::F32, Shape{4, 8}});
  const Work before{testing::allocationCount(), testing::allocatedBytes()};
  model.compile(std::span<const TensorType>(types));
  return {testing::allocationCount() - before.allocations,
          testing::allocatedBytes() - before.bytes};
}

void expectProportional(const Work& once, const Work& twice) {
  EXPECT_LE(static_cast<double>(twice.allocations), 2.3 * static_cast<double>(once.allocations));
  EXPECT_LE(static_cast<double>(twice.bytes), 2.3 * static_cast<double>(once.bytes));
}

TEST(Growth, TwiceTheLayersTakeTwiceTheWork) {
  for (const bool activation : {false, true}) {
    SCOPED_TRACE(activation ? "with relu" : "linear");
    std::vector<Work> sgd;
    std::vector<Work> adam;
    for (const int layers : {200, 400}) {
      Options accumulating;
      accumulating.training.gradientAccumulation(3);
      Chain first(layers, activation, false);
      sgd.push_back(compileWork(first, accumulating, optim::SGD(0.1)));
      Chain second(layers, activation, false);
      adam.push_back(compileWork(second, Options(), optim::AdamW(0.1)));
    }
    expectProportional(sgd[0], sgd[1]);
    expectProportional(adam[0], adam[1]);
  }
}

/// A stage and a device for each layer, on so many replicas.
Work pipelineWork(int stages, int replicas) {
  Options options;
  options.training.gradientAccumulation(2);
  options.replicationFactor(replicas);
  std::vector<parallel::Stage> places;
  for (int i = 0; i < stages; ++i) {
    places.emplace_back(fmt::format("block{}", i)).device(i);
  }
  options.setExecutionStrategy(parallel::PipelinedExecution(places));
  Chain net(stages, true, true);
  return compileWork(net, options, optim::SGD(0.1));
}

TEST(Growth, TwiceTheStagesTakeTwiceTheWork) {
  expectProportional(pipelineWork(100, 1), pipelineWork(200, 1));
}

TEST(Growth, TwiceTheReplicasTakeTwiceTheWork) {
  expectProportional(pipelineWork(1, 512), pipelineWork(1, 1024));
}

}  // namespace
}  // namespace sluice
