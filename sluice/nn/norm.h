// Normalization layers, as in PyTorch.
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

}  // namespace sluice::nn

#pragma GCC visibility pop
