// Norms, activations and dropout as layers, as in PyTorch.
#pragma once

#include <cstdint>

#include "sluice/nn/functional.h"
#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the newest batch in the running statistics
  DType dtype = DType::F32;
};

/// Normalizes each channel (axis 1) of inputs of rank 2 to 5. In training it uses the statistics of
/// the batch and updates the running statistics (with the unbiased variance); otherwise it uses the
/// running statistics.
class BatchNorm : public Layer {
 public:
  BatchNorm(Module& parent, std::string name, std::int64_t channels, BatchNormOptions options = {});
  std::string kind() const override { return "BatchNorm"; }
  Tensor forward(const Tensor& x) override;

  Parameter& weight;
  Parameter& bias;
  Parameter& runningMean;        ///< "running_mean"
  Parameter& runningVariance;    ///< "running_var"
  Parameter& numBatchesTracked;  ///< "num_batches_tracked", i64

 private:
  void track(const BatchNormResult& batch, std::int64_t count);

  BatchNormOptions options_;
};
using BatchNorm1d = BatchNorm;
using BatchNorm2d = BatchNorm;
using BatchNorm3d = BatchNorm;

struct NormLayerOptions {
  double eps = 1e-5;
  DType dtype = DType::F32;
};

/// Normalizes over the last axes, which have the given extents.
class LayerNorm : public Layer {
 public:
  LayerNorm(Module& parent, std::string name, Extents extents, NormLayerOptions options = {});
  LayerNorm(Module& parent, std::string name, std::int64_t extent, NormLayerOptions options = {})
      : LayerNorm(parent, std::move(name), Extents{extent}, options) {}
  std::string kind() const override { return "LayerNorm"; }
  Tensor forward(const Tensor& x) override;

  Parameter& weight;
  Parameter& bias;

 private:
  double eps_;
};

/// Divides by the root mean square over the last axis; there is no mean and no bias.
class RmsNorm : public Layer {
 public:
  RmsNorm(Module& parent, std::string name, std::int64_t extent, NormLayerOptions options = {});
  std::string kind() const override { return "RmsNorm"; }
  Tensor forward(const Tensor& x) override;

  Parameter& weight;

 private:
  double eps_;
};

/// Normalizes each group of channels (axis 1) of each example.
class GroupNorm : public Layer {
 public:
  GroupNorm(Module& parent,
            std::string name,
            std::int64_t groups,
            std::int64_t channels,
            NormLayerOptions options = {});
  std::string kind() const override { return "GroupNorm"; }
  Tensor forward(const Tensor& x) override;

  Parameter& weight;
  Parameter& bias;

 private:
  std::int64_t groups_;
  double eps_;
};

struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false;  ///< has weight and bias
  DType dtype = DType::F32;
};

/// Normalizes each channel (axis 1) of each example by its own mean and variance, in training and
/// inference; there are no running statistics.
class InstanceNorm : public Layer {
 public:
  InstanceNorm(Module& parent,
               std::string name,
               std::int64_t channels,
               InstanceNormOptions options = {});
  std::string kind() const override { return "InstanceNorm"; }
  Tensor forward(const Tensor& x) override;

  Parameter* weight = nullptr;  ///< [channels] or null
  Parameter* bias = nullptr;    ///< [channels] or null

 private:
  std::int64_t channels_;
  double eps_;
};
using InstanceNorm1d = InstanceNorm;
using InstanceNorm2d = InstanceNorm;
using InstanceNorm3d = InstanceNorm;

// Activation functions as layers, dropout, and layers that only reshape, mostly for Sequential.

// NOLINTBEGIN(bugprone-macro-parentheses, performance-unnecessary-value-param): names; mostly
// numbers
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
// NOLINTEND(bugprone-macro-parentheses, performance-unnecessary-value-param)

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
