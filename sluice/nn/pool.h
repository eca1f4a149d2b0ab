// Pooling layers over [batch, channels, one to three spatial axes], and layers that change the size
// of images.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/nn/functional.h"
#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

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
