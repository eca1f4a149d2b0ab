// ResNet-18 with batch norm, with any width and depth. Parameters have torchvision's names and
// shapes. Used by end-to-end tests and the benchmark.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "sluice/nn/functional.h"
#include "sluice/nn/modules.h"

namespace sluice::testing {

/// Two 3x3 convolutions, added to the identity, or to a 1x1 convolution where the shape changes.
struct ResNetBlock : nn::Layer {
  ResNetBlock(nn::Module& parent,
              std::string name,
              std::int64_t inChannels,
              std::int64_t channels,
              std::int64_t stride)
      : nn::Layer(parent, std::move(name)),
        conv1(*this,
              "conv1",
              inChannels,
              channels,
              3,
              {.stride = {stride}, .padding = {1}, .bias = false}),
        bn1(*this, "bn1", channels),
        conv2(*this, "conv2", channels, channels, 3, {.padding = {1}, .bias = false}),
        bn2(*this, "bn2", channels) {
    if (stride != 1 || inChannels != channels) {
      downsample.emplace(*this, "downsample");
      downsample
          ->add<nn::Conv2d>(
              inChannels, channels, 1, nn::ConvLayerOptions{.stride = {stride}, .bias = false})
          .add<nn::BatchNorm2d>(channels);
    }
  }

  nn::Tensor forward(const nn::Tensor& x) override {
    const nn::Tensor y = bn2(conv2(nn::relu(bn1(conv1(x)))));
    return nn::relu(y + (downsample ? (*downsample)(x) : x));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  std::optional<nn::Sequential> downsample;
};

struct ResNetShape {
  std::int64_t width = 64;  ///< channels of the first stage; each later one has twice as many
  std::int64_t blocks = 2;  ///< blocks per stage; 2 is ResNet-18
  std::int64_t classes = 1000;
};

struct ResNet : nn::Module {
  explicit ResNet(const ResNetShape& s)
      : conv1(*this, "conv1", 3, s.width, 7, {.stride = {2}, .padding = {3}, .bias = false}),
        bn1(*this, "bn1", s.width),
        layer1(*this, "layer1"),
        layer2(*this, "layer2"),
        layer3(*this, "layer3"),
        layer4(*this, "layer4"),
        fc(*this, "fc", 8 * s.width, s.classes) {
    std::int64_t in = s.width;
    std::int64_t out = s.width;
    for (Stage* stage : stages()) {
      for (std::int64_t i = 0; i < s.blocks; ++i) {
        stage->emplace(in, out, stage != &layer1 && i == 0 ? 2 : 1);
        in = out;
      }
      out *= 2;
    }
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    x = nn::relu(bn1(conv1(x)));
    x = nn::maxPool2d(x, 3, 2, 1);
    for (Stage* stage : stages()) {
      for (std::size_t i = 0; i < stage->size(); ++i) {
        x = (*stage)[i](x);
      }
    }
    x = fc(nn::mean(x, {2, 3}));
    return {x, nn::crossEntropy(x, labels)};
  }

  using Stage = nn::ModuleList<ResNetBlock>;
  std::array<Stage*, 4> stages() { return {&layer1, &layer2, &layer3, &layer4}; }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  Stage layer1;
  Stage layer2;
  Stage layer3;
  Stage layer4;
  nn::Linear fc;
};

}  // namespace sluice::testing
