// The networks that end-to-end tests train, and what a run of one leaves behind: the bits of every
// variable and of every loss. Two runs that must agree are compared as these maps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sluice/api/session.h"
#include "sluice/sluice.h"

namespace sluice::testing {

struct Mlp : nn::Module {
  nn::Linear fc1{*this, "fc1", 6, 16};
  nn::Linear fc2{*this, "fc2", 16, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels);
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{8, 6}}, {DType::I64, Shape{8}}};
  }
};

/// Convolution, max pooling, batch norm and a residual connection.
struct Cnn : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 4, 3, {.padding = {1}}};
  nn::BatchNorm norm{*this, "norm", 4};
  nn::Conv2d conv2{*this, "conv2", 4, 4, 3, {.padding = {1}, .bias = false}};
  nn::Linear fc{*this, "fc", 4 * 4 * 4, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels);
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, 1, 8, 8}}, {DType::I64, Shape{4}}};
  }
};

/// An LSTM cell over four time steps.
struct Lstm : nn::Module {
  nn::LstmCell cell{*this, "cell", 5, 8};
  nn::Linear fc{*this, "fc", 8, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels);
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, 4, 5}}, {DType::I64, Shape{4}}};
  }
};

/// One transformer block with dropout.
struct Gpt : nn::Module {
  nn::Embedding tokens{*this, "tokens", 3, 8};
  nn::LayerNorm norm1{*this, "norm1", 8};
  nn::MultiHeadAttention attention{*this, "attention", 8, 2, {.causal = true}};
  nn::LayerNorm norm2{*this, "norm2", 8};
  nn::Linear up{*this, "up", 8, 16};
  nn::Dropout dropout{*this, "dropout", 0.2};
  nn::Linear down{*this, "down", 16, 8};
  nn::Linear head{*this, "head", 8, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor ids, nn::Tensor targets);
  static std::vector<TensorType> inputs() {
    return {{DType::I64, Shape{2, 6}}, {DType::I64, Shape{2, 6}}};
  }
};

/// The network of the MNIST example.
struct MnistNet : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 10, 5};
  nn::Conv2d conv2{*this, "conv2", 10, 20, 5};
  nn::Linear fc1{*this, "fc1", 320, 256};
  nn::Linear fc2{*this, "fc2", 256, 10};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels);
};

/// One linear layer of one number: w x + b against y, mean squared error.
struct Line : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor y);
};

/// Inputs of a network for micro-batches [first, first + count), joined along the first dimension:
/// floats in [-1, 1), integers in [0, 3).
std::vector<HostTensor> makeInputs(const std::vector<TensorType>& types,
                                   std::int64_t first,
                                   std::int64_t count);

/// Hashes of bits by name: every variable, and "loss <micro-batch>".
using Bits = std::map<std::string, std::uint64_t>;
Bits bitsOf(Session& session);
/// The names of those that differ; empty: none does.
std::string difference(const Bits& expected, const Bits& got);

/// Trains from a fixed seed for `updates` updates in calls of deviceIterations.
template <class Net>
Bits trainWith(const optim::Optimizer& optimizer, Options options, std::int64_t updates) {
  Net net;
  options.outputMode(OutputMode::All);
  auto model = trainingModel(net, options, optimizer);
  std::map<std::string, std::uint64_t> losses;
  std::int64_t microBatch = 0;
  while (model.updates() < updates) {
    const std::int64_t count = model.microBatchesPerStep();
    const std::vector<HostTensor> out = model.run(makeInputs(Net::inputs(), microBatch, count));
    const HostTensor loss = out.back().reshaped(Shape{count});
    for (std::int64_t i = 0; i < count; ++i) {
      losses["loss " + std::to_string(microBatch++)] = loss.rows(i, 1).hash();
    }
  }
  Bits bits = bitsOf(model.session());
  bits.merge(losses);
  return bits;
}

/// The same with AdamW.
template <class Net>
Bits train(Options options, std::int64_t updates) {
  return trainWith<Net>(optim::AdamW(0.01), std::move(options), updates);
}

/// A network by name, for tests over all of them.
struct TrainingCase {
  std::string name;
  Bits (*train)(Options options, std::int64_t updates);
};
std::vector<TrainingCase> trainingCases();

}  // namespace sluice::testing
