// The networks that are measured and compared with other frameworks: the network of
// examples/mnist.cpp and the GPT of examples/char_gpt.h. Parameters have PyTorch's names and
// shapes.
#pragma once

#include <utility>

#include "examples/char_gpt.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/modules.h"

namespace sluice::testing {

using examples::Gpt;
using examples::GptShape;

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

/// It, in the blocks B1 to B4.
struct MnistBlocks : MnistNetwork {
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    {
      const nn::Block block("B1");
      x = nn::relu(nn::maxPool2d(conv1(x), 2));
    }
    {
      const nn::Block block("B2");
      x = nn::relu(nn::maxPool2d(conv2(x), 2));
    }
    {
      const nn::Block block("B3");
      x = nn::relu(fc1(nn::flatten(x, 1)));
    }
    const nn::Block block("B4");
    x = fc2(x);
    return {x, nn::crossEntropy(x, labels)};
  }
};

}  // namespace sluice::testing
