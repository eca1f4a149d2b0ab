// Pooling layers over images [batch, channels, height, width].
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/nn/functional.h"
#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

struct PoolLayerOptions {
  std::optional<std::int64_t> stride = {};  ///< not set: the kernel size
  std::int64_t padding = 0;
};

class MaxPool2d : public Layer {
 public:
  MaxPool2d(Module& parent, std::string name, std::int64_t kernel, PoolLayerOptions options = {})
      : Layer(parent, std::move(name)), kernel_(kernel), options_(options) {}
  std::string kind() const override { return "MaxPool2d"; }
  Tensor forward(const Tensor& x) override {
    return maxPool2d(x, kernel_, options_.stride, options_.padding);
  }

 private:
  std::int64_t kernel_;
  PoolLayerOptions options_;
};

class AvgPool2d : public Layer {
 public:
  AvgPool2d(Module& parent, std::string name, std::int64_t kernel, PoolLayerOptions options = {})
      : Layer(parent, std::move(name)), kernel_(kernel), options_(options) {}
  std::string kind() const override { return "AvgPool2d"; }
  Tensor forward(const Tensor& x) override {
    return avgPool2d(x, kernel_, options_.stride, options_.padding);
  }

 private:
  std::int64_t kernel_;
  PoolLayerOptions options_;
};

/// The mean over all spatial axes: [batch, channels].
class GlobalAvgPool : public Layer {
 public:
  using Layer::Layer;
  std::string kind() const override { return "GlobalAvgPool"; }
  Tensor forward(const Tensor& x) override { return globalAvgPool(x); }
};

}  // namespace sluice::nn

#pragma GCC visibility pop
