// A GPT of any depth and width, a block per layer: weights and activations grow with its depth,
// what one phase needs does not.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/sluice.h"
#include "tests/support/transformer_layer.h"

namespace sluice::testing {

struct DeepGpt : nn::Module {
  static constexpr std::int64_t kVocabulary = 3;

  DeepGpt(std::int64_t depth, std::int64_t width, std::int64_t batch, std::int64_t length)
      : batch_(batch),
        length_(length),
        tokens(*this, "tokens", kVocabulary, width),
        head(*this, "head", width, kVocabulary) {
    for (std::int64_t i = 0; i < depth; ++i) {
      layers.push_back(std::make_unique<TransformerLayer>(
          *this, "layer" + std::to_string(i), TransformerShape{.width = width}));
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
  std::vector<std::unique_ptr<TransformerLayer>> layers;
};

}  // namespace sluice::testing
