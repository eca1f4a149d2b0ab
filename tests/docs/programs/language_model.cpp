// character language model: LSTM, sampling by a second model with state in and out
#include <cstdio>
#include <random>
#include <string>

#include "sluice/sluice.h"

using namespace sluice;

const std::string kText = "the quick brown fox jumps over the lazy dog. ";

struct CharLm : nn::Module {
  nn::Embedding embed{*this, "embed", 128, 32};
  nn::LSTM lstm{*this, "lstm", 32, 64, {.numLayers = 2, .batchFirst = true, .dropout = 0.1}};
  nn::Linear head{*this, "head", 64, 128};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor tokens, std::optional<nn::Tensor> targets) {
    const nn::Tensor logits = head(lstm(embed(tokens)));
    if (!targets) {
      return {logits, nn::mean(logits)};
    }
    return {logits, nn::crossEntropy(logits.view({-1, 128}), targets->view({-1}))};
  }
};

int main() try {
  std::string text;
  while (text.size() < 4000) {
    text += kText;
  }
  CharLm net;
  Options options;
  options.training.gradientAccumulation(2);
  auto model = trainingModel(net, options, optim::AdamW({.lr = 5e-3, .maxGradNorm = 1.0}));
  const std::int64_t batch = 16, length = 24;
  HostTensor x(DType::I64, Shape{batch, length});
  HostTensor y(DType::I64, Shape{batch, length});
  std::mt19937 random(1);
  double loss = 0;
  for (int step = 0; step < 150; ++step) {
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::size_t start = random() % (text.size() - length - 1);
      for (std::int64_t i = 0; i < length; ++i) {
        x.set(b * length + i, text[start + i]);
        y.set(b * length + i, text[start + i + 1]);
      }
    }
    loss = meanOf(std::get<1>(model(x, y)));
  }
  std::printf("loss %.3f\n", loss);
  auto sample = inferenceModel(net, Options());
  std::string written = "the quick brown fox jump";
  for (int i = 0; i < 20; ++i) {
    HostTensor last(DType::I64, Shape{1, length});
    for (std::int64_t k = 0; k < length; ++k) {
      last.set(k, written[written.size() - length + k]);
    }
    auto [logits, ignored] = sample(last, std::nullopt);
    int best = 0;
    for (int c = 0; c < 128; ++c) {
      if (logits.at((length - 1) * 128 + c) > logits.at((length - 1) * 128 + best)) {
        best = c;
      }
    }
    written += static_cast<char>(best);
  }
  std::printf("%s\n", written.c_str());
  return loss < 0.7 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
