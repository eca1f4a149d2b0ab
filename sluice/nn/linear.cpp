#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/layers.h"
#include "sluice/nn/parameter.h"

namespace sluice::nn {
namespace {

Shape linearShape(std::string_view name, std::int64_t in, std::int64_t out) {
  return {positive(out, "Linear", name, "the number of outputs"),
          positive(in, "Linear", name, "the number of inputs")};
}

Shape tableShape(std::string_view name, std::int64_t rows, std::int64_t columns) {
  return {positive(rows, "Embedding", name, "the number of embeddings"),
          positive(columns, "Embedding", name, "the dimension")};
}

}  // namespace

Linear::Linear(Module& parent,
               std::string name,
               std::int64_t inFeatures,
               std::int64_t outFeatures,
               LinearOptions options)
    : Layer(parent, std::move(name)),
      weight(addParameter("weight",
                          {options.dtype, linearShape(this->name(), inFeatures, outFeatures)},
                          init::layerDefault(inFeatures))),
      bias(options.bias
               ? &addParameter(
                     "bias", {options.dtype, Shape{outFeatures}}, init::layerDefault(inFeatures))
               : nullptr) {}

Tensor Linear::forward(const Tensor& x) {
  const std::int64_t features = weight.type().shape[1];
  const Shape& shape = x.shape();
  if (shape.rank() == 0 || shape[shape.rank() - 1] != features) {
    raise<InvalidArgument>(
        "{}: expected an input [..., {}], got {}", description(), features, x.type().str());
  }
  const Tensor w = weight;  // read in the order of the parameters, whatever that of arguments is
  return linear(x, w, bias != nullptr ? bias->use() : Tensor());
}

Embedding::Embedding(Module& parent,
                     std::string name,
                     std::int64_t numEmbeddings,
                     std::int64_t dimension,
                     DType dtype)
    : Layer(parent, std::move(name)),
      weight(addParameter("weight",
                          {dtype, tableShape(this->name(), numEmbeddings, dimension)},
                          init::normal(0.0, 1.0))) {}

Tensor Embedding::forward(const Tensor& indices) {
  if (!isInteger(indices.dtype())) {
    raise<InvalidArgument>(
        "{}: expected integer indices, got {}", description(), indices.type().str());
  }
  return embedding(indices, weight);
}

}  // namespace sluice::nn
