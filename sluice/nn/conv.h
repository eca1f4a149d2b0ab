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

}  // namespace sluice::nn

#pragma GCC visibility pop
