// Networks without blocks that are hard to cut: a GPT whose embedding is also its head, a DenseNet,
// whose layers read all layers before them, and a U-Net, whose halves are connected at every
// height. Used by tests of the automatic cut and its benchmark; ResNet-18 is in resnet.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sluice/nn/functional.h"
#include "sluice/nn/modules.h"
#include "tests/support/transformer_layer.h"

namespace sluice::testing {

struct TiedGptShape {
  std::int64_t depth = 6;
  std::int64_t width = 128;
  std::int64_t vocabulary = 1000;
};

struct TiedGpt : nn::Module {
  explicit TiedGpt(const TiedGptShape& s)
      : shape(s), tokens(*this, "tokens", s.vocabulary, s.width), layers(*this, "layers") {
    for (std::int64_t i = 0; i < s.depth; ++i) {
      layers.emplace(TransformerShape{.width = s.width});
    }
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor ids, nn::Tensor targets) {
    nn::Tensor x = tokens(ids);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = layers[i](x);
    }
    x = nn::reshape(nn::linear(x, tokens.weight.use()), {-1, shape.vocabulary});
    return {x, nn::crossEntropy(x, nn::reshape(targets, {-1}))};
  }

  TiedGptShape shape;
  nn::Embedding tokens;
  nn::ModuleList<TransformerLayer> layers;
};

struct DenseNetShape {
  std::int64_t growth = 32;
  std::vector<std::int64_t> blocks = {6, 12, 24, 16};  ///< layers per block; this is DenseNet-121
  std::int64_t classes = 1000;
};

struct DenseNet : nn::Module {
  /// A 1x1 and a 3x3 convolution, whose result is concatenated to the input.
  struct DenseLayer : nn::Layer {
    DenseLayer(nn::Module& parent, std::string name, std::int64_t in, std::int64_t growth)
        : nn::Layer(parent, std::move(name)),
          norm1(*this, "norm1", in),
          conv1(*this, "conv1", in, 4 * growth, 1, {.bias = false}),
          norm2(*this, "norm2", 4 * growth),
          conv2(*this, "conv2", 4 * growth, growth, 3, {.padding = {1}, .bias = false}) {}
    nn::Tensor forward(const nn::Tensor& x) override {
      return nn::concat({x, conv2(nn::relu(norm2(conv1(nn::relu(norm1(x))))))}, 1);
    }

    nn::BatchNorm2d norm1;
    nn::Conv2d conv1;
    nn::BatchNorm2d norm2;
    nn::Conv2d conv2;
  };

  /// Halves the channels, the height and the width.
  struct Transition : nn::Layer {
    Transition(nn::Module& parent, std::string name, std::int64_t in)
        : nn::Layer(parent, std::move(name)),
          norm(*this, "norm", in),
          conv(*this, "conv", in, in / 2, 1, {.bias = false}) {}
    nn::Tensor forward(const nn::Tensor& x) override {
      return nn::avgPool2d(conv(nn::relu(norm(x))), 2, 2);
    }

    nn::BatchNorm2d norm;
    nn::Conv2d conv;
  };

  explicit DenseNet(const DenseNetShape& s)
      : first(*this, "first", 3, 2 * s.growth, 7, {.stride = {2}, .padding = {3}, .bias = false}),
        layers(*this, "layers"),
        transitions(*this, "transitions"),
        heads(*this, "heads"),
        counts(s.blocks) {
    std::int64_t channels = 2 * s.growth;
    for (std::size_t block = 0; block < counts.size(); ++block) {
      for (std::int64_t i = 0; i < counts[block]; ++i, channels += s.growth) {
        layers.emplace(channels, s.growth);
      }
      if (block + 1 < counts.size()) {
        transitions.emplace(channels);
        channels /= 2;
      }
    }
    heads.emplace(channels, s.classes);
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    x = nn::maxPool2d(nn::relu(first(x)), 3, 2, 1);
    std::size_t next = 0;
    for (std::size_t block = 0; block < counts.size(); ++block) {
      for (std::int64_t i = 0; i < counts[block]; ++i) {
        x = layers[next++](x);
      }
      if (block + 1 < counts.size()) {
        x = transitions[block](x);
      }
    }
    x = heads[0](nn::mean(x, {2, 3}));
    return {x, nn::crossEntropy(x, labels)};
  }

  nn::Conv2d first;
  nn::ModuleList<DenseLayer> layers;
  nn::ModuleList<Transition> transitions;
  nn::ModuleList<nn::Linear> heads;  // exactly one
  std::vector<std::int64_t> counts;
};

struct UNetShape {
  std::int64_t width = 32;  ///< channels at the top; each height below has twice as many
  std::int64_t heights = 4;
};

struct UNet : nn::Module {
  struct Pair : nn::Layer {
    Pair(nn::Module& parent, std::string name, std::int64_t in, std::int64_t out)
        : nn::Layer(parent, std::move(name)),
          conv1(*this, "conv1", in, out, 3, {.padding = {1}}),
          conv2(*this, "conv2", out, out, 3, {.padding = {1}}) {}
    nn::Tensor forward(const nn::Tensor& x) override { return nn::relu(conv2(nn::relu(conv1(x)))); }

    nn::Conv2d conv1;
    nn::Conv2d conv2;
  };

  explicit UNet(const UNetShape& s) : down(*this, "down"), up(*this, "up"), shape(s) {
    std::int64_t in = 3;
    for (std::int64_t i = 0; i <= s.heights; ++i) {
      down.emplace(in, s.width << i);
      in = s.width << i;
    }
    for (std::int64_t i = s.heights; i-- > 0;) {
      up.emplace(3 * (s.width << i), s.width << i);
    }
  }

  /// Repeats every pixel four times: doubles height and width.
  static nn::Tensor doubled(const nn::Tensor& x) {
    const Shape s = x.shape();
    nn::Tensor y = nn::reshape(x, {s[0], s[1], s[2], 1, s[3], 1});
    y = nn::concat({y, y}, 3);
    return nn::reshape(nn::concat({y, y}, 5), {s[0], s[1], 2 * s[2], 2 * s[3]});
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor target) {
    std::vector<nn::Tensor> beside;
    for (std::int64_t i = 0; i < shape.heights; ++i) {
      beside.push_back(down[static_cast<std::size_t>(i)](x));
      x = nn::maxPool2d(beside.back(), 2, 2);
    }
    x = down[static_cast<std::size_t>(shape.heights)](x);
    for (std::size_t i = 0; i < beside.size(); ++i) {
      x = up[i](nn::concat({beside[beside.size() - 1 - i], doubled(x)}, 1));
    }
    x = last(x);
    return {x, nn::mseLoss(x, target)};
  }

  nn::ModuleList<Pair> down;
  nn::ModuleList<Pair> up;
  UNetShape shape;
  nn::Conv2d last{*this, "last", shape.width, 1, 1};
};

}  // namespace sluice::testing
