// The networks that are measured and compared with other frameworks, as in examples/mnist.cpp and
// examples/char_gpt.cpp; parameters have PyTorch's names and shapes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sluice/nn/functional.h"
#include "sluice/nn/modules.h"

namespace sluice::testing {

struct MnistNetwork : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 10, 5};
  nn::Conv2d conv2{*this, "conv2", 10, 20, 5};
  nn::Linear fc1{*this, "fc1", 320, 256};
  nn::Linear fc2{*this, "fc2", 256, 10};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    x = nn::relu(nn::maxPool2d(conv1(x), 2));
    x = nn::relu(nn::maxPool2d(conv2(x), 2));
    x = nn::relu(fc1(nn::flatten(x, 1)));
    x = fc2(x);
    return {x, nn::crossEntropy(x, labels)};
  }
};

struct GptShape {
  std::int64_t vocabulary = 128;
  std::int64_t context = 64;
  std::int64_t width = 64;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  std::int64_t batchSize = 16;
};

struct GptBlock : nn::Layer {
  GptBlock(nn::Module& parent, std::string name, std::int64_t width, std::int64_t heads)
      : nn::Layer(parent, std::move(name)),
        norm1(*this, "norm1", width),
        attention(*this, "attention", width, heads, {.causal = true}),
        norm2(*this, "norm2", width),
        up(*this, "up", width, 4 * width),
        down(*this, "down", 4 * width, width) {}

  nn::Tensor forward(const nn::Tensor& x) override {
    const nn::Tensor y = x + attention(norm1(x));
    return y + down(nn::gelu(up(norm2(y))));
  }

  nn::LayerNorm norm1;
  nn::MultiHeadAttention attention;
  nn::LayerNorm norm2;
  nn::Linear up;
  nn::Linear down;
};

struct Gpt : nn::Module {
  explicit Gpt(const GptShape& s)
      : vocabulary(s.vocabulary),
        tokens(*this, "tokens", s.vocabulary, s.width),
        positions(*this, "positions", s.context, s.width),
        blocks(*this, "blocks"),
        norm(*this, "norm", s.width),
        head(*this, "head", s.width, s.vocabulary) {
    for (std::int64_t i = 0; i < s.layers; ++i) {
      blocks.emplace(s.width, s.heads);
    }
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor ids, nn::Tensor targets) {
    nn::Tensor x = tokens(ids) + nn::Tensor(positions.weight);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      x = blocks[i](x);
    }
    const nn::Tensor logits = head(norm(x));
    return {logits, nn::crossEntropy(nn::reshape(logits, {-1, vocabulary}), nn::flatten(targets))};
  }

  std::int64_t vocabulary;
  nn::Embedding tokens;
  nn::Embedding positions;
  nn::ModuleList<GptBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
};

}  // namespace sluice::testing
