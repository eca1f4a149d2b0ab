// Layers without parameters that act element by element or only reshape, mostly for Sequential.
#pragma once

#include <cstdint>

#include "sluice/nn/functional.h"
#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

class ReLU : public Layer {
 public:
  using Layer::Layer;
  std::string kind() const override { return "ReLU"; }
  Tensor forward(const Tensor& x) override { return relu(x); }
};

class GELU : public Layer {
 public:
  using Layer::Layer;
  std::string kind() const override { return "GELU"; }
  Tensor forward(const Tensor& x) override { return gelu(x); }
};

class SiLU : public Layer {
 public:
  using Layer::Layer;
  std::string kind() const override { return "SiLU"; }
  Tensor forward(const Tensor& x) override { return silu(x); }
};

class Tanh : public Layer {
 public:
  using Layer::Layer;
  std::string kind() const override { return "Tanh"; }
  Tensor forward(const Tensor& x) override { return tanh(x); }
};

class Sigmoid : public Layer {
 public:
  using Layer::Layer;
  std::string kind() const override { return "Sigmoid"; }
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};

/// Joins the axes from startAxis to the last one.
class Flatten : public Layer {
 public:
  Flatten(Module& parent, std::string name, std::int64_t startAxis = 1)
      : Layer(parent, std::move(name)), startAxis_(startAxis) {}
  std::string kind() const override { return "Flatten"; }
  Tensor forward(const Tensor& x) override { return flatten(x, startAxis_); }

 private:
  std::int64_t startAxis_;
};

/// Active in training only: while the module is in training mode and a training model is traced.
class Dropout : public Layer {
 public:
  /// Throws InvalidArgument unless p is in [0, 1).
  Dropout(Module& parent, std::string name, double p = 0.5);
  std::string kind() const override { return "Dropout"; }
  Tensor forward(const Tensor& x) override { return dropout(x, p_, isTraining()); }

 private:
  double p_;
};

}  // namespace sluice::nn

#pragma GCC visibility pop
