// A transformer, written from the documents alone: it learns to reverse sequences of tokens. Its
// three layers are a pipeline over three devices; the bits are those of one device.
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

constexpr std::int64_t kTokens = 8;
constexpr std::int64_t kLength = 6;

struct Reverser : nn::Module {
  nn::Embedding tokens{*this, "tokens", kTokens, 32};
  nn::Embedding positions{*this, "positions", kLength, 32};
  nn::TransformerEncoderLayer first{
      *this, "first", 32, 4, {.feedforward = 64, .dropout = 0, .batchFirst = true}};
  nn::TransformerEncoderLayer second{
      *this, "second", 32, 4, {.feedforward = 64, .dropout = 0, .batchFirst = true}};
  nn::LayerNorm norm{*this, "norm", 32};
  nn::Linear head{*this, "head", 32, kTokens};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor ids, nn::Tensor targets) {
    nn::Tensor x;
    {
      const nn::Block block("embedding");
      x = tokens(ids) + positions(nn::arange(kLength));
    }
    {
      const nn::Block block("layer 1");
      x = first(x);
    }
    {
      const nn::Block block("layer 2");
      x = second(x);
    }
    const nn::Block block("head");
    x = head(norm(x));
    return {x, nn::crossEntropy(x.view({-1, kTokens}), targets.flatten())};
  }
};

struct Result {
  double loss = 0;
  std::vector<double> weights;
};

Result train(const Strategy& strategy) {
  HostTensor ids(DType::I64, Shape{64, kLength});
  HostTensor targets(DType::I64, Shape{64, kLength});
  for (std::int64_t row = 0; row < 64; ++row) {
    for (std::int64_t i = 0; i < kLength; ++i) {
      const std::int64_t token = (row * 7 + i * i * (row + 3)) % kTokens;
      ids.set(row * kLength + i, static_cast<double>(token));
      targets.set(row * kLength + kLength - 1 - i, static_cast<double>(token));
    }
  }
  Reverser net;
  Options options;
  options.training.gradientAccumulation(8);
  options.setExecutionStrategy(strategy);
  auto model = trainingModel(net, options, optim::AdamW({.lr = 3e-3, .weightDecay = 0.01}));
  Result result;
  for (int step = 0; step < 120; ++step) {
    const auto [logits, loss] = model(ids, targets);
    result.loss = meanOf(loss);
  }
  result.weights = model.stateDict().at("second.linear1.weight").toDoubles();
  return result;
}

int main() try {
  const Result one = train(ShardedExecution());
  const Result three = train(
      PipelinedExecution{Stage("embedding", "layer 1"), Stage("layer 2"), Stage("head")}.schedule(
          "zb-h1"));
  std::printf("loss %.4f\n", three.loss);
  return three.loss < 0.1 && one.loss == three.loss && one.weights == three.weights ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
