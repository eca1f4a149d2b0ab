// Activation functions as layers, dropout, and layers that only reshape, mostly for Sequential.
#pragma once

#include <cstdint>

#include "sluice/nn/functional.h"
#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

// NOLINTBEGIN(bugprone-macro-parentheses): names, not expressions
/// A function without settings as a layer.
#define SLUICE_ACTIVATION(Name, function)                                \
  class Name : public Layer {                                            \
   public:                                                               \
    using Layer::Layer;                                                  \
    std::string kind() const override { return #Name; }                  \
    Tensor forward(const Tensor& x) override { return nn::function(x); } \
  }
SLUICE_ACTIVATION(Hardsigmoid, hardsigmoid);
SLUICE_ACTIVATION(Hardswish, hardswish);
SLUICE_ACTIVATION(Identity, identity);
SLUICE_ACTIVATION(LogSigmoid, logsigmoid);
SLUICE_ACTIVATION(Mish, mish);
SLUICE_ACTIVATION(ReLU, relu);
SLUICE_ACTIVATION(ReLU6, relu6);
SLUICE_ACTIVATION(SELU, selu);
SLUICE_ACTIVATION(SiLU, silu);
SLUICE_ACTIVATION(Sigmoid, sigmoid);
SLUICE_ACTIVATION(Softplus, softplus);
SLUICE_ACTIVATION(Softsign, softsign);
SLUICE_ACTIVATION(Tanh, tanh);
SLUICE_ACTIVATION(Tanhshrink, tanhshrink);
#undef SLUICE_ACTIVATION

/// A function with one setting, which has PyTorch's default.
#define SLUICE_ACTIVATION_WITH(Name, function, Setting, standard)                  \
  class Name : public Layer {                                                      \
   public:                                                                         \
    Name(Module& parent, std::string name, Setting setting = standard)             \
        : Layer(parent, std::move(name)), setting_(setting) {}                     \
    std::string kind() const override { return #Name; }                            \
    Tensor forward(const Tensor& x) override { return nn::function(x, setting_); } \
                                                                                   \
   private:                                                                        \
    Setting setting_;                                                              \
  }
SLUICE_ACTIVATION_WITH(CELU, celu, double, 1.0);                      // alpha
SLUICE_ACTIVATION_WITH(ELU, elu, double, 1.0);                        // alpha
SLUICE_ACTIVATION_WITH(GELU, gelu, std::string, "none");              // approximation
SLUICE_ACTIVATION_WITH(GLU, glu, std::int64_t, -1);                   // axis
SLUICE_ACTIVATION_WITH(Hardshrink, hardshrink, double, 0.5);          // lambda
SLUICE_ACTIVATION_WITH(LeakyReLU, leakyRelu, double, 0.01);           // slope of negative numbers
SLUICE_ACTIVATION_WITH(LogSoftmax, logSoftmax, std::int64_t, -1);     // axis
SLUICE_ACTIVATION_WITH(PixelShuffle, pixelShuffle, std::int64_t, 2);  // factor
SLUICE_ACTIVATION_WITH(Softmax, softmax, std::int64_t, -1);           // axis
SLUICE_ACTIVATION_WITH(Softmin, softmin, std::int64_t, -1);           // axis
SLUICE_ACTIVATION_WITH(Softshrink, softshrink, double, 0.5);          // lambda
#undef SLUICE_ACTIVATION_WITH
// NOLINTEND(bugprone-macro-parentheses)

/// Cuts x off at both ends.
class Hardtanh : public Layer {
 public:
  Hardtanh(Module& parent, std::string name, double low = -1.0, double high = 1.0)
      : Layer(parent, std::move(name)), low_(low), high_(high) {}
  std::string kind() const override { return "Hardtanh"; }
  Tensor forward(const Tensor& x) override { return hardtanh(x, low_, high_); }

 private:
  double low_;
  double high_;
};

/// x where it exceeds the threshold, else the value.
class Threshold : public Layer {
 public:
  Threshold(Module& parent, std::string name, double threshold, double value)
      : Layer(parent, std::move(name)), threshold_(threshold), value_(value) {}
  std::string kind() const override { return "Threshold"; }
  Tensor forward(const Tensor& x) override { return nn::threshold(x, threshold_, value_); }

 private:
  double threshold_;
  double value_;
};

/// Learns the slope for negative numbers: one, or one per channel (axis 1).
class PReLU : public Layer {
 public:
  PReLU(Module& parent, std::string name, std::int64_t slopes = 1, double start = 0.25);
  std::string kind() const override { return "PReLU"; }
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }

  Parameter& weight;  ///< [slopes]
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
  double p_ = 0.0;
};

/// Dropout of whole channels (axis 1), for inputs of rank 3, 4 and 5.
template <int kAxes>
class ChannelDropout : public Layer {
 public:
  /// Throws InvalidArgument unless p is in [0, 1).
  ChannelDropout(Module& parent, std::string name, double p = 0.5);
  std::string kind() const override { return "Dropout" + std::to_string(kAxes) + "d"; }
  Tensor forward(const Tensor& x) override;

 private:
  double p_ = 0.0;
};
using Dropout1d = ChannelDropout<1>;
using Dropout2d = ChannelDropout<2>;
using Dropout3d = ChannelDropout<3>;

}  // namespace sluice::nn

#pragma GCC visibility pop
