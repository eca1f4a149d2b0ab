// The layer of the GPTs that tests and benchmarks are made of: causal attention and two linear
// layers, each after a norm and with its input added to its result.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sluice/nn/functional.h"
#include "sluice/nn/modules.h"

namespace sluice::testing {

struct TransformerShape {
  std::int64_t width = 0;
  std::int64_t heads = 4;
  std::int64_t hidden = 4 * width;  ///< between the two linear layers
};

struct TransformerLayer : nn::Layer {
  TransformerLayer(nn::Module& parent, std::string name, const TransformerShape& s)
      : nn::Layer(parent, std::move(name)),
        norm1(*this, "norm1", s.width),
        attention(*this, "attention", s.width, s.heads, {.causal = true}),
        norm2(*this, "norm2", s.width),
        up(*this, "up", s.width, s.hidden),
        down(*this, "down", s.hidden, s.width) {}

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

}  // namespace sluice::testing
