#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/layers.h"
#include "sluice/nn/parameter.h"

namespace sluice::nn {
namespace {

struct Channels {
  std::int64_t in;
  std::int64_t out;
};

Shape convShape(const std::string& module,
                std::string_view name,
                const Channels& channels,
                const Extents& kernel,
                std::int64_t groups,
                int axes) {
  const auto [in, out] = channels;
  positive(groups, module, name, "groups");
  positive(in, module, name, "the number of input channels");
  positive(out, module, name, "the number of output channels");
  if (in % groups != 0 || out % groups != 0) {
    raise<InvalidArgument>("{} '{}': {} groups do not divide {} input and {} output channels",
                           module,
                           name,
                           groups,
                           in,
                           out);
  }
  if (kernel.size() != 1 && kernel.size() != static_cast<std::size_t>(axes)) {
    raise<InvalidArgument>(
        "{} '{}': the kernel has {} extents, expected 1 or {}", module, name, kernel.size(), axes);
  }
  std::vector<std::int64_t> dims = {out, in / groups};
  for (std::size_t i = 0; i < static_cast<std::size_t>(axes); ++i) {
    dims.push_back(positive(kernel[kernel.size() == 1 ? 0 : i], module, name, "the kernel"));
  }
  return Shape(std::move(dims));
}

}  // namespace

Conv::Conv(Module& parent, std::string name, const Shape& weightShape, ConvLayerOptions options)
    : Layer(parent, std::move(name)),
      weight(addParameter(
          "weight", {options.dtype, weightShape}, init::layerDefault(init::fanIn(weightShape)))),
      bias(options.bias ? &addParameter("bias",
                                        {options.dtype, Shape{weightShape[0]}},
                                        init::layerDefault(init::fanIn(weightShape)))
                        : nullptr),
      axes_(weightShape.rank() - 2),
      options_{std::move(options.stride),
               std::move(options.padding),
               std::move(options.dilation),
               options.groups} {}

Tensor Conv::forward(const Tensor& x) {
  const std::int64_t channels = weight.type().shape[1] * options_.groups;
  const Shape& shape = x.shape();
  if (shape.rank() != axes_ + 2 || shape[1] != channels) {
    raise<InvalidArgument>("{}: expected an input [batch, {}, {} spatial axes], got {}",
                           description(),
                           channels,
                           axes_,
                           x.type().str());
  }
  const Tensor w = weight;  // read in the order of the parameters
  const Tensor offset = bias != nullptr ? bias->use() : Tensor();
  switch (axes_) {
    case 1:
      return conv1d(x, w, options_, offset);
    case 2:
      return conv2d(x, w, options_, offset);
    default:
      return conv3d(x, w, options_, offset);
  }
}

template <int kAxes>
ConvNd<kAxes>::ConvNd(Module& parent,
                      std::string name,
                      std::int64_t inChannels,
                      std::int64_t outChannels,
                      Extents kernel,
                      ConvLayerOptions options)
    : Conv(parent,
           name,
           convShape(fmt::format("Conv{}d", kAxes),
                     name,
                     {inChannels, outChannels},
                     kernel,
                     options.groups,
                     kAxes),
           std::move(options)) {}

ConvTranspose::ConvTranspose(Module& parent,
                             std::string name,
                             const Shape& weightShape,
                             ConvTransposeLayerOptions options)
    : Layer(parent, std::move(name)),
      weight(addParameter(
          "weight", {options.dtype, weightShape}, init::layerDefault(init::fanIn(weightShape)))),
      bias(options.bias ? &addParameter("bias",
                                        {options.dtype, Shape{weightShape[1] * options.groups}},
                                        init::layerDefault(init::fanIn(weightShape)))
                        : nullptr),
      axes_(weightShape.rank() - 2),
      options_{std::move(options.stride),
               std::move(options.padding),
               std::move(options.outputPadding),
               std::move(options.dilation),
               options.groups} {}

Tensor ConvTranspose::forward(const Tensor& x) {
  if (x.rank() != axes_ + 2 || x.shape(1) != weight.type().shape[0]) {
    raise<InvalidArgument>("{}: expected an input [batch, {}, {} spatial axes], got {}",
                           description(),
                           weight.type().shape[0],
                           axes_,
                           x.type().str());
  }
  const Tensor w = weight;  // read in the order of the parameters
  const Tensor offset = bias != nullptr ? bias->use() : Tensor();
  switch (axes_) {
    case 1:
      return convTranspose1d(x, w, options_, offset);
    case 2:
      return convTranspose2d(x, w, options_, offset);
    default:
      return convTranspose3d(x, w, options_, offset);
  }
}

template <int kAxes>
ConvTransposeNd<kAxes>::ConvTransposeNd(Module& parent,
                                        std::string name,
                                        std::int64_t inChannels,
                                        std::int64_t outChannels,
                                        Extents kernel,
                                        ConvTransposeLayerOptions options)
    // The weight of the convolution in the other direction.
    : ConvTranspose(parent,
                    name,
                    convShape(fmt::format("ConvTranspose{}d", kAxes),
                              name,
                              {outChannels, inChannels},
                              kernel,
                              options.groups,
                              kAxes),
                    std::move(options)) {}

template class ConvTransposeNd<1>;
template class ConvTransposeNd<2>;
template class ConvTransposeNd<3>;
template class ConvNd<1>;
template class ConvNd<2>;
template class ConvNd<3>;

}  // namespace sluice::nn
