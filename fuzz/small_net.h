// The models of the fuzz targets, which make_corpus writes files of: small, and the same every
// time.
#pragma once

#include "sluice/sluice.h"

namespace sluice::fuzz {

/// All that a state has: weights, buffers, moments of two groups.
struct SmallNet : nn::Module {
  nn::Linear first{*this, "first", 3, 4};
  nn::BatchNorm norm{*this, "norm", 4};
  nn::Linear last{*this, "last", 4, 2};

  nn::Tensor forward(const nn::Tensor& x) {
    const nn::Tensor y = last(norm(nn::tanh(first(x))));
    return nn::mean(y * y);
  }
  static HostTensor input() {
    return HostTensor::of<float>(Shape{2, 3}, {1, -2, 0.5F, 3, 0.25F, -1});
  }
};

inline optim::AdamW smallRule() {
  optim::AdamW rule(0.01);
  rule.addGroup(optim::endingWith(".bias"), {{"weight_decay", 0.0}});
  return rule;
}

/// After one step, so that there is state.
inline auto trained(SmallNet& net) {
  auto model = trainingModel(net, Options().randomSeed(4), smallRule());
  model.run(std::vector{SmallNet::input()});
  return model;
}

inline data::LoaderOptions smallLoading() {
  return {.batchSize = 2, .shuffle = data::Shuffle::Yes, .seed = 7};
}

inline data::DatasetPtr smallDataset() {
  return data::tensorDataset({HostTensor::of<float>(Shape{7}, {0, 1, 2, 3, 4, 5, 6})});
}

/// Ops that a tuning table has entries for: products, convolutions and their gradients.
struct TunedNet : nn::Module {
  nn::Conv2d conv{*this, "conv", 8, 16, 3, {.bias = false}};
  nn::Conv2d next{*this, "next", 16, 8, 3, {.bias = false}};
  nn::Linear last{*this, "last", 32, 24};

  nn::Tensor forward(const nn::Tensor& x) {
    const nn::Tensor y = last(nn::reshape(next(conv(x)), {4, 32}));
    return nn::mean(y * y);
  }
  static HostTensor input() {
    HostTensor x(DType::F32, Shape{4, 8, 6, 6});
    for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
      x.set(i, static_cast<double>(i * i % 37) / 16 - 1);
    }
    return x;
  }
};

}  // namespace sluice::fuzz
