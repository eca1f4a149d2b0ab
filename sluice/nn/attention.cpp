#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/sequence.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {
namespace {

Shape projectionShape(std::string_view name, std::int64_t embedding) {
  positive(embedding, "MultiHeadAttention", name, "the embedding");
  return {3 * embedding, embedding};
}

/// [batch, length, heads * size] to [batch, heads, length, size].
Tensor splitHeads(const Tensor& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  return permute(reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(Module& parent,
                                       std::string name,
                                       std::int64_t embedding,
                                       std::int64_t heads,
                                       MultiHeadOptions options)
    : Layer(parent, std::move(name)),
      inProjWeight(addParameter("in_proj_weight",
                                {options.dtype, projectionShape(this->name(), embedding)},
                                init::xavierUniform(projectionShape(this->name(), embedding)))),
      inProjBias(
          options.bias
              ? &addParameter("in_proj_bias", {options.dtype, Shape{3 * embedding}}, init::zeros())
              : nullptr),
      outProj(
          *this, "out_proj", embedding, embedding, {.bias = options.bias, .dtype = options.dtype}),
      embedding_(embedding),
      heads_(positive(heads, "MultiHeadAttention", path(), "the number of heads")),
      causal_(options.causal) {
  if (embedding % heads != 0) {
    raise<InvalidArgument>("MultiHeadAttention '{}': {} heads do not divide the embedding {}",
                           path(),
                           heads,
                           embedding);
  }
  if (options.bias) {
    outProj.bias->setInitializer(init::zeros());
  }
}

Tensor MultiHeadAttention::forward(const Tensor& x) {
  requireSequence(x, "the input");
  const Tensor w = inProjWeight;  // read in the order of the parameters
  const Tensor offset = inProjBias != nullptr ? inProjBias->use() : Tensor();
  const std::vector<Tensor> parts =
      split(linear(x, w, offset), {embedding_, embedding_, embedding_}, 2);
  return combine(parts[0], parts[1], parts[2], {});
}

Tensor MultiHeadAttention::attend(const Tensor& query,
                                  const Tensor& key,
                                  const Tensor& value,
                                  const Tensor& mask) {
  const ModuleScope scope(*this);
  requireSequence(query, "the query");
  requireSequence(key, "the key");
  requireSequence(value, "the value");
  const std::vector<std::int64_t> sizes(3, embedding_);
  const std::vector<Tensor> w = split(inProjWeight, sizes, 0);
  const std::vector<Tensor> offset =
      inProjBias != nullptr ? split(*inProjBias, sizes, 0) : std::vector<Tensor>(3);
  const Tensor q = linear(query, w[0], offset[0]);
  const Tensor k = linear(key, w[1], offset[1]);
  const Tensor v = linear(value, w[2], offset[2]);
  return combine(q, k, v, mask);
}

void MultiHeadAttention::requireSequence(const Tensor& x, std::string_view what) const {
  if (x.shape().rank() != 3 || x.shape()[2] != embedding_) {
    raise<InvalidArgument>("{}: expected {} [batch, length, {}], got {}",
                           description(),
                           what,
                           embedding_,
                           x.type().str());
  }
}

Tensor MultiHeadAttention::combine(const Tensor& q,
                                   const Tensor& k,
                                   const Tensor& v,
                                   const Tensor& mask) {
  const Tensor queries = splitHeads(q, heads_);
  const Tensor keys = splitHeads(k, heads_);
  const Tensor values = splitHeads(v, heads_);
  const Tensor mixed =
      scaledDotProductAttention(queries, keys, values, {.mask = mask, .causal = causal_});
  const Tensor joined =
      reshape(permute(mixed, {0, 2, 1, 3}), {q.shape()[0], q.shape()[1], embedding_});
  return outProj(joined);
}

}  // namespace sluice::nn
