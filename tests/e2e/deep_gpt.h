// A GPT of any depth and width, a block per layer: weights and activations grow with its depth,
// what one phase needs does not.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/sluice.h"

namespace sluice::testing {

struct DeepGpt : nn::Module {
  static constexpr std::int64_t kVocabulary = 3;

  struct Layer : nn::Layer {
    Layer(nn::Module& parent, std::string name, std::int64_t width)
        : nn::Layer(parent, std::move(name)),
          norm1(*this, "norm1", width),
          attention(*this, "attention", width, 4, {.causal = true}),
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

  DeepGpt(std::int64_t depth, std::int64_t width, std::int64_t batch, std::int64_t length)
      : batch_(batch),
        length_(length),
        tokens(*this, "tokens", kVocabulary, width),
        head(*this, "head", width, kVocabulary) {
    for (std::int64_t i = 0; i < depth; ++i) {
      layers.push_back(std::make_unique<Layer>(*this, "layer" + std::to_string(i), width));
    }
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor ids, nn::Tensor targets) {
    nn::Tensor x = ids;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const nn::Block block("layer" + std::to_string(i));
      x = (*layers[i])(i == 0 ? tokens(ids) : x);
    }
    const nn::Block block("head");
    x = nn::reshape(head(x), {batch_ * length_, kVocabulary});
    return {x, nn::crossEntropy(x, nn::reshape(targets, {batch_ * length_}))};
  }

  std::vector<TensorType> inputs() const {
    return {{DType::I64, Shape{batch_, length_}}, {DType::I64, Shape{batch_, length_}}};
  }

  /// A phase per layer, the head with the last one.
  static std::vector<parallel::Phase> phases(std::int64_t depth) {
    std::vector<parallel::Phase> all;
    for (std::int64_t i = 0; i + 1 < depth; ++i) {
      all.emplace_back("layer" + std::to_string(i));
    }
    all.emplace_back("layer" + std::to_string(depth - 1), "head");
    return all;
  }

  std::int64_t batch_;
  std::int64_t length_;
  nn::Embedding tokens;
  nn::Linear head;
  std::vector<std::unique_ptr<Layer>> layers;
};

}  // namespace sluice::testing
