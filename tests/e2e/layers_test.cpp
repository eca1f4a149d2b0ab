// The layers that are made of many ops, under every strategy: the bits of one device.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/e2e/networks.h"
#include "tests/e2e/remote_support.h"

namespace sluice {
namespace {

using testing::Bits;
using testing::differenceBetweenRounds;
using testing::trainWith;

constexpr std::int64_t kLayerUpdates = 3;

/// A decoder of images to sequences, recurrent layers in both directions, and a transformer.
struct ManyLayers : nn::Module {
  nn::ConvTranspose1d grow{*this, "grow", 3, 6, 4, {.stride = {2}, .padding = {1}}};
  nn::InstanceNorm1d norm{*this, "norm", 6, {.affine = true}};
  nn::LeakyReLU active{*this, "active"};
  nn::LSTM lstm{*this, "lstm", 6, 4, {.numLayers = 2, .dropout = 0.2, .bidirectional = true}};
  nn::GRU gru{*this, "gru", 8, 8};
  nn::TransformerEncoderLayer encoder{*this, "encoder", 8, 2, {.feedforward = 12, .dropout = 0.1}};
  nn::TransformerDecoderLayer decoder{*this, "decoder", 8, 2, {.feedforward = 12, .dropout = 0.0}};
  nn::Linear last{*this, "last", 8, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, const nn::Tensor& labels) {
    {
      const nn::Block block("b0");
      x = active(norm(grow(x))).permute({2, 0, 1});  // [steps, batch, features]
    }
    nn::Tensor memory;
    {
      const nn::Block block("b1");
      memory = lstm(x);
      x = gru(memory);
    }
    {
      const nn::Block block("b2");
      x = encoder(nn::rotaryEmbedding(x.transpose(0, 1)).transpose(0, 1), {.causal = true});
    }
    const nn::Block block("b3");
    x = last(decoder(x, memory).mean({0}));
    return {x, nn::crossEntropy(x, labels)};
  }
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, 3, 9}}, {DType::I64, Shape{4}}};
  }
};

Options layersOnOneDevice() {
  Options options;
  options.training.gradientAccumulation(4);
  options.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2", "b3")}));
  return options;
}

Bits layerBitsOf(const Options& options) {
  return trainWith<ManyLayers>(optim::AdamW(0.01), options, kLayerUpdates);
}

struct LayerCase {
  std::string name;
  std::function<void(Options&)> set;
};
void PrintTo(const LayerCase& layerCase, std::ostream* out) {
  *out << layerCase.name;
}

std::vector<LayerCase> layerStrategies() {
  const std::vector<Stage> two = {Stage("b0", "b1"), Stage("b2", "b3")};
  const std::vector<Stage> four = {"b0", "b1", "b2", "b3"};
  return {
      {"TwoThreads", [](Options& o) { o.threads(2); }},
      {"Pipelined", [=](Options& o) { o.setExecutionStrategy(PipelinedExecution(four)); }},
      {"Gpipe",
       [=](Options& o) { o.setExecutionStrategy(PipelinedExecution(two).schedule("gpipe")); }},
      {"Sharded", [=](Options& o) { o.setExecutionStrategy(ShardedExecution(four)); }},
      {"RecomputedPipeline",
       [=](Options& o) {
         o.setExecutionStrategy(PipelinedExecution(four)).recomputation(Recomputation::Pipeline);
       }},
      {"SerialPhases",
       [](Options& o) {
         o.setExecutionStrategy(SerialPhasedExecution(std::vector<Phase>{"b0", "b1", "b2", "b3"}));
       }},
      {"FarPipeline",
       [=](Options& o) { o.device("far").setExecutionStrategy(PipelinedExecution(four)); }},
  };
}

class LayerBits : public ::testing::TestWithParam<LayerCase> {};

TEST_P(LayerBits, AreThoseOfOneDevice) {
  static const Bits kExpected = layerBitsOf(layersOnOneDevice());
  Options options = layersOnOneDevice();
  GetParam().set(options);
  EXPECT_EQ(differenceBetweenRounds(kExpected, layerBitsOf(options)), "");
}

INSTANTIATE_TEST_SUITE_P(Matrix,
                         LayerBits,
                         ::testing::ValuesIn(layerStrategies()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sluice
