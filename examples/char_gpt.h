// The network of the character-level GPT: char_gpt.cpp trains it, the benchmarks measure it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sluice/sluice.h"

namespace sluice::examples {

struct GptShape {
  std::int64_t vocabulary = 128;  ///< ASCII
  std::int64_t context = 64;
  std::int64_t width = 64;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  std::int64_t batchSize = 16;  ///< sequences
};

/// Attention and two linear layers, each behind a norm and beside the identity.
struct TransformerBlock : nn::Layer {
  TransformerBlock(nn::Module& parent, std::string name, std::int64_t width, std::int64_t heads)
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

/// Token and learned position embeddings, causal blocks, a norm and a linear head. Results are the
/// logits and their cross-entropy.
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
    nn::Tensor x;
    {
      const nn::Block block("embedding");
      x = tokens(ids) + nn::Tensor(positions.weight);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const nn::Block block("layer" + std::to_string(i));
      x = blocks[i](x);
    }
    const nn::Block block("head");
    const nn::Tensor logits = head(norm(x));
    return {logits, nn::crossEntropy(nn::reshape(logits, {-1, vocabulary}), nn::flatten(targets))};
  }

  std::int64_t vocabulary;
  nn::Embedding tokens;
  nn::Embedding positions;
  nn::ModuleList<TransformerBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
};

}  // namespace sluice::examples
