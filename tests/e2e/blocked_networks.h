// Networks annotated with blocks, b0 to b4 or b5, for tests that cut them in many ways.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sluice/sluice.h"
#include "tests/support/transformer_layer.h"

namespace sluice::testing {

/// The convolutional network of the MNIST example at a small input.
struct BlockedCnn : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 6, 5};
  nn::Conv2d conv2{*this, "conv2", 6, 8, 3};
  nn::Linear fc1{*this, "fc1", 32, 24};
  nn::Linear fc2{*this, "fc2", 24, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels);
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, 1, 16, 16}}, {DType::I64, Shape{4}}};
  }
};

/// Residual connections over blocks, dropout, an input read by two blocks, and one layer that is
/// applied in b1 and again in b3.
struct ResidualMlp : nn::Module {
  nn::Linear first{*this, "first", 6, 16};
  nn::Linear tied{*this, "tied", 16, 16};
  nn::Linear middle{*this, "middle", 16, 16};
  nn::Linear skip{*this, "skip", 6, 16};
  nn::Linear last{*this, "last", 16, 3};
  nn::Dropout dropout{*this, "dropout", 0.25};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels);
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{8, 6}}, {DType::I64, Shape{8}}};
  }
};

/// Two transformer blocks with dropout, batch norm between them, and the embedding's weight as the
/// weight of the head.
struct BlockedGpt : nn::Module {
  static constexpr TransformerShape kLayer{.width = 8, .heads = 2, .hidden = 16};

  nn::Embedding tokens{*this, "tokens", 3, 8};
  TransformerLayer layer1{*this, "layer1", kLayer};
  nn::BatchNorm norm{*this, "norm", 8};
  TransformerLayer layer2{*this, "layer2", kLayer};
  nn::Dropout dropout{*this, "dropout", 0.2};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor ids, nn::Tensor targets);
  static std::vector<TensorType> inputs() {
    return {{DType::I64, Shape{2, 6}}, {DType::I64, Shape{2, 6}}};
  }
};

/// Blocks that do not depend on each other: b0 and b1 read the input, b2 and b3 what b0 makes, and
/// b4 joins b1, b2 and b3. b2 begins with element-wise ops, so that its gradient fuses with the sum
/// of b0's.
struct Towers : nn::Module {
  nn::Linear first{*this, "first", 6, 12};
  nn::Linear side{*this, "side", 6, 12};
  nn::BatchNorm norm{*this, "norm", 12};
  nn::Linear left{*this, "left", 12, 12};
  nn::Linear right{*this, "right", 12, 12};
  nn::Linear last{*this, "last", 24, 3};
  nn::Dropout dropout{*this, "dropout", 0.25};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels);
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{8, 6}}, {DType::I64, Shape{8}}};
  }
};

}  // namespace sluice::testing
