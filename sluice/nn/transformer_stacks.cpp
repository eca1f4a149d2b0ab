#include <array>

#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/sequence.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {
namespace {

/// Makes the layers of a stack, and its last normalization if it has one.
template <class T>
void fill(Module& stack,
          ModuleList<T>& layers,
          std::optional<LayerNorm>& norm,
          const std::array<std::int64_t, 3>& sizes,
          const TransformerStackOptions& options) {
  const auto [numLayers, embedding, heads] = sizes;
  positive(numLayers, stack.kind(), stack.path(), "the number of layers");
  for (std::int64_t i = 0; i < numLayers; ++i) {
    layers.emplace(embedding, heads, options.layer);
  }
  if (options.norm) {
    norm.emplace(stack,
                 "norm",
                 embedding,
                 NormLayerOptions{.eps = options.layer.eps, .dtype = options.layer.dtype});
  }
}

}  // namespace

TransformerEncoder::TransformerEncoder(Module& parent,
                                       std::string name,
                                       std::int64_t numLayers,
                                       std::int64_t embedding,
                                       std::int64_t heads,
                                       const TransformerStackOptions& options)
    : Layer(parent, std::move(name)), layers_(*this, "layers") {
  fill(*this, layers_, norm_, {numLayers, embedding, heads}, options);
}

Tensor TransformerEncoder::encode(const Tensor& x, const AttentionMasks& masks) {
  Tensor y = x;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    y = layers_[i](y, masks);
  }
  return norm_ ? (*norm_)(y) : y;
}

Tensor TransformerEncoder::operator()(const Tensor& x, const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  return encode(x, masks);
}

TransformerDecoder::TransformerDecoder(Module& parent,
                                       std::string name,
                                       std::int64_t numLayers,
                                       std::int64_t embedding,
                                       std::int64_t heads,
                                       const TransformerStackOptions& options)
    : Layer(parent, std::move(name)), layers_(*this, "layers") {
  fill(*this, layers_, norm_, {numLayers, embedding, heads}, options);
}

Tensor TransformerDecoder::forward(const Tensor& x) {
  raise<InvalidArgument>(
      "{}: a decoder also reads the encoder's output; call decoder(x, memory) with x {}",
      description(),
      x.type().str());
}

Tensor TransformerDecoder::operator()(const Tensor& x,
                                      const Tensor& memory,
                                      const DecoderMasks& masks) {
  const ModuleScope scope(*this);
  Tensor y = x;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    y = layers_[i](y, memory, masks);
  }
  return norm_ ? (*norm_)(y) : y;
}

}  // namespace sluice::nn
