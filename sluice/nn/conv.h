// Convolution layers with one to three spatial axes, as in PyTorch.
#pragma once

#include <cstdint>

#include "sluice/nn/functional.h"
#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

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

/// A kernel given as one number has that extent on all axes.
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
using Conv1d = ConvNd<1>;
using Conv2d = ConvNd<2>;
using Conv3d = ConvNd<3>;

}  // namespace sluice::nn

#pragma GCC visibility pop
