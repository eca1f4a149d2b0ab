// Layers with weights of their own (Linear, Embedding, convolutions), and pools, as in PyTorch.
// norm.h has norms, activations and dropout; sequence.h attention, transformers and recurrence.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/nn/functional.h"
#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = DType::F32;
};

/// x wᵀ + b over the last axis.
class Linear : public Layer {
 public:
  Linear(Module& parent,
         std::string name,
         std::int64_t inFeatures,
         std::int64_t outFeatures,
         LinearOptions options = {});
  std::string kind() const override { return "Linear"; }
  Tensor forward(const Tensor& x) override;

  Parameter& weight;  ///< [out, in]
  Parameter* bias;    ///< [out] or null
};

/// Looks up rows of a table by integer indices of any shape. The table starts with values from N(0,
/// 1).
class Embedding : public Layer {
 public:
  Embedding(Module& parent,
            std::string name,
            std::int64_t numEmbeddings,
            std::int64_t dimension,
            DType dtype = DType::F32);
  std::string kind() const override { return "Embedding"; }
  Tensor forward(const Tensor& indices) override;

  Parameter& weight;  ///< [numEmbeddings, dimension]
};

// Convolution layers with one to three spatial axes, as in PyTorch.

struct ConvLayerOptions {
  Extents stride = {1};
  Extents padding = {0};
  Extents dilation = {1};
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::F32;
};

/// What Conv1d, Conv2d and Conv3d share.
class Conv : public Layer {
 public:
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Conv" + std::to_string(axes_) + "d"; }

  Parameter& weight;  ///< [out, in / groups, kernel...]
  Parameter* bias;    ///< [out] or null

 protected:
  Conv(Module& parent, std::string name, const Shape& weightShape, ConvLayerOptions options);

 private:
  std::int64_t axes_;
  ConvOptions options_;
};

/// Convolution. A kernel given as one number has that extent on all axes.
template <int kAxes>
class ConvNd : public Conv {
 public:
  ConvNd(Module& parent,
         std::string name,
         std::int64_t inChannels,
         std::int64_t outChannels,
         Extents kernel,
         ConvLayerOptions options = {});
  ConvNd(Module& parent,
         std::string name,
         std::int64_t inChannels,
         std::int64_t outChannels,
         std::int64_t kernel,
         ConvLayerOptions options = {})
      : ConvNd(
            parent, std::move(name), inChannels, outChannels, Extents{kernel}, std::move(options)) {
  }
};
struct ConvTransposeLayerOptions {
  Extents stride = {1};
  Extents padding = {0};
  Extents outputPadding = {0};
  Extents dilation = {1};
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::F32;
};

/// What ConvTranspose1d, ConvTranspose2d and ConvTranspose3d share.
class ConvTranspose : public Layer {
 public:
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "ConvTranspose" + std::to_string(axes_) + "d"; }

  Parameter& weight;  ///< [in, out / groups, kernel...]
  Parameter* bias;    ///< [out] or null

 protected:
  ConvTranspose(Module& parent,
                std::string name,
                const Shape& weightShape,
                ConvTransposeLayerOptions options);

 private:
  std::int64_t axes_;
  ConvTransposeOptions options_;
};

/// Transposed convolution, the gradient of a convolution with respect to its input.
template <int kAxes>
class ConvTransposeNd : public ConvTranspose {
 public:
  ConvTransposeNd(Module& parent,
                  std::string name,
                  std::int64_t inChannels,
                  std::int64_t outChannels,
                  Extents kernel,
                  ConvTransposeLayerOptions options = {});
  ConvTransposeNd(Module& parent,
                  std::string name,
                  std::int64_t inChannels,
                  std::int64_t outChannels,
                  std::int64_t kernel,
                  ConvTransposeLayerOptions options = {})
      : ConvTransposeNd(
            parent, std::move(name), inChannels, outChannels, Extents{kernel}, std::move(options)) {
  }
};
using ConvTranspose1d = ConvTransposeNd<1>;
using ConvTranspose2d = ConvTransposeNd<2>;
using ConvTranspose3d = ConvTransposeNd<3>;
using Conv1d = ConvNd<1>;
using Conv2d = ConvNd<2>;
using Conv3d = ConvNd<3>;

// Pooling layers over [batch, channels, one to three spatial axes], and layers that change the size
// of images.

/// A layer that is a function of x and of settings that it keeps. `call` is the function.
template <class Settings, Tensor (*call)(const Tensor&, const Settings&)>
class SettingsLayer : public Layer {
 public:
  SettingsLayer(Module& parent, std::string name, Settings settings)
      : Layer(parent, std::move(name)), settings_(std::move(settings)) {}
  Tensor forward(const Tensor& x) override { return call(x, settings_); }

 private:
  Settings settings_;
};

struct PoolLayerOptions {
  std::optional<std::int64_t> stride = {};  ///< not set: the kernel size
  std::int64_t padding = 0;
};

// NOLINTBEGIN(bugprone-macro-parentheses): names, not expressions
/// Takes a kernel with options, or a whole window.
#define SLUICE_POOL_LAYER(Name, function)                                                      \
  class Name : public SettingsLayer<PoolWindow, function> {                                    \
   public:                                                                                     \
    Name(Module& parent, std::string name, PoolWindow window)                                  \
        : SettingsLayer(parent, std::move(name), std::move(window)) {}                         \
    Name(Module& parent, std::string name, std::int64_t kernel, PoolLayerOptions options = {}) \
        : SettingsLayer(parent,                                                                \
                        std::move(name),                                                       \
                        {.kernel = {kernel},                                                   \
                         .stride = {options.stride.value_or(kernel)},                          \
                         .padding = {options.padding}}) {}                                     \
    std::string kind() const override { return #Name; }                                        \
  }
SLUICE_POOL_LAYER(MaxPool1d, maxPool1d);
SLUICE_POOL_LAYER(MaxPool2d, maxPool2d);
SLUICE_POOL_LAYER(MaxPool3d, maxPool3d);
SLUICE_POOL_LAYER(AvgPool1d, avgPool1d);
SLUICE_POOL_LAYER(AvgPool2d, avgPool2d);
SLUICE_POOL_LAYER(AvgPool3d, avgPool3d);
#undef SLUICE_POOL_LAYER

/// Takes the size of the result: one extent for all spatial axes, or one per axis.
#define SLUICE_ADAPTIVE_LAYER(Name, function)                      \
  class Name : public SettingsLayer<Extents, function> {           \
   public:                                                         \
    using SettingsLayer::SettingsLayer;                            \
    Name(Module& parent, std::string name, std::int64_t size)      \
        : SettingsLayer(parent, std::move(name), Extents{size}) {} \
    std::string kind() const override { return #Name; }            \
  }
SLUICE_ADAPTIVE_LAYER(AdaptiveAvgPool1d, adaptiveAvgPool1d);
SLUICE_ADAPTIVE_LAYER(AdaptiveAvgPool2d, adaptiveAvgPool2d);
SLUICE_ADAPTIVE_LAYER(AdaptiveAvgPool3d, adaptiveAvgPool3d);
SLUICE_ADAPTIVE_LAYER(AdaptiveMaxPool1d, adaptiveMaxPool1d);
SLUICE_ADAPTIVE_LAYER(AdaptiveMaxPool2d, adaptiveMaxPool2d);
SLUICE_ADAPTIVE_LAYER(AdaptiveMaxPool3d, adaptiveMaxPool3d);
#undef SLUICE_ADAPTIVE_LAYER
// NOLINTEND(bugprone-macro-parentheses)

/// `interpolate` as a layer.
class Upsample : public SettingsLayer<InterpolateOptions, interpolate> {
 public:
  using SettingsLayer::SettingsLayer;
  std::string kind() const override { return "Upsample"; }
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
