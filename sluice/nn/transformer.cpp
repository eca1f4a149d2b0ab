// MultiheadAttention and the transformer layers of attention.h.
#include <cmath>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/sequence.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {
namespace {

/// [batch, length, heads * size] to [batch, heads, length, size].
Tensor headsOf(const Tensor& x, std::int64_t heads) {
  return permute(reshape(x, {x.shape(0), x.shape(1), heads, x.shape(2) / heads}), {0, 2, 1, 3});
}

/// 0 where the mask allows and minus infinity where it forbids; a float mask stays.
Tensor addedMask(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::Bool) {
    return mask;
  }
  const Tensor zero = zeros({}, dtype);
  return where(mask, full({}, -std::numeric_limits<double>::infinity(), dtype), zero);
}

/// True below the diagonal and on it.
Tensor causalMask(std::int64_t rows, std::int64_t columns) {
  const Tensor row = unsqueeze(arange(rows), 1);
  return greaterEqual(row, arange(columns));
}

}  // namespace

MultiheadAttention::MultiheadAttention(Module& parent,
                                       std::string name,
                                       std::int64_t embedding,
                                       std::int64_t heads,
                                       MultiheadAttentionOptions options)
    : Module(parent, std::move(name)),
      embedding_(positive(embedding, "MultiheadAttention", path(), "the embedding")),
      heads_(positive(heads, "MultiheadAttention", path(), "the number of heads")),
      options_(options),
      outProj_(
          *this, "out_proj", embedding, embedding, {.bias = options.bias, .dtype = options.dtype}) {
  if (embedding % heads != 0) {
    raise<InvalidArgument>("MultiheadAttention '{}': {} heads do not divide the embedding {}",
                           path(),
                           heads,
                           embedding);
  }
  const std::int64_t keys = options.kdim.value_or(embedding);
  const std::int64_t values = options.vdim.value_or(embedding);
  const auto made = [&](const char* what, const Shape& shape) {
    return &addParameter(what, {options.dtype, shape}, init::xavierUniform(shape));
  };
  if (keys == embedding && values == embedding) {
    inProjWeight_ = made("in_proj_weight", Shape{3 * embedding, embedding});
  } else {
    projections_ = {made("q_proj_weight", Shape{embedding, embedding}),
                    made("k_proj_weight", Shape{embedding, keys}),
                    made("v_proj_weight", Shape{embedding, values})};
  }
  if (options.bias) {
    inProjBias_ =
        &addParameter("in_proj_bias", {options.dtype, Shape{3 * embedding}}, init::zeros());
    outProj_.bias->setInitializer(init::zeros());
  }
}

void MultiheadAttention::requireSequence(const Tensor& x,
                                         std::int64_t features,
                                         std::string_view what) const {
  if (x.rank() != 3 || x.shape(2) != features) {
    raise<InvalidArgument>("{}: expected {} [{}, {}], got {}",
                           description(),
                           what,
                           options_.batchFirst ? "batch, length" : "length, batch",
                           features,
                           x.type().str());
  }
}

std::vector<Tensor> MultiheadAttention::project(const Tensor& query,
                                                const Tensor& key,
                                                const Tensor& value) const {
  const std::vector<std::int64_t> sizes(3, embedding_);
  std::vector<Tensor> w;
  if (inProjWeight_ != nullptr) {
    w = split(*inProjWeight_, sizes, 0);
  } else {
    for (const Parameter* projection : projections_) {
      w.push_back(projection->use());
    }
  }
  const std::vector<Tensor> bias =
      inProjBias_ != nullptr ? split(*inProjBias_, sizes, 0) : std::vector<Tensor>(3);
  std::vector<Tensor> parts = {query, key, value};
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor x = options_.batchFirst ? parts[i] : transpose(parts[i], 0, 1);
    parts[i] = headsOf(linear(x, w[i], bias[i]), heads_);
  }
  return parts;
}

Tensor MultiheadAttention::combinedMask(const AttentionMasks& masks, const Shape& scores) const {
  Tensor attention = masks.attention;
  if (attention.defined()) {
    if (attention.rank() == 3) {
      attention = reshape(attention, scores.dims());
    } else if (attention.shape() != Shape{scores[2], scores[3]}) {
      raise<InvalidArgument>("{}: expected an attention mask [{}, {}], got {}",
                             description(),
                             scores[2],
                             scores[3],
                             attention.type().str());
    }
  }
  if (masks.causal) {
    const Tensor later = logicalNot(causalMask(scores[2], scores[3]));
    attention = !attention.defined() ? later
                : attention.dtype() == DType::Bool
                    ? logicalOr(attention, later)
                    : attention + addedMask(later, attention.dtype());
  }
  Tensor padding = masks.keyPadding;
  if (padding.defined()) {
    if (padding.shape() != Shape{scores[0], scores[3]}) {
      raise<InvalidArgument>("{}: expected a key padding mask [{}, {}], got {}",
                             description(),
                             scores[0],
                             scores[3],
                             padding.type().str());
    }
    padding = reshape(padding, {scores[0], 1, 1, scores[3]});
  }
  if (!attention.defined() || !padding.defined()) {
    return attention.defined() ? attention : padding;
  }
  if (attention.dtype() == DType::Bool && padding.dtype() == DType::Bool) {
    return logicalOr(attention, padding);
  }
  return addedMask(attention, options_.dtype) + addedMask(padding, options_.dtype);
}

AttentionResult MultiheadAttention::weighted(const std::vector<Tensor>& parts,
                                             const Tensor& mask,
                                             bool needWeights) {
  const std::int64_t size = embedding_ / heads_;
  const double scale = 1.0 / std::sqrt(static_cast<double>(size));
  Tensor scores = matmul(parts[0] * scale, transpose(parts[1], 2, 3));
  if (mask.defined()) {
    scores = scores + addedMask(mask, scores.dtype());
  }
  const Tensor weights = dropout(softmax(scores), options_.dropout, isTraining());
  return {matmul(weights, parts[2]), needWeights ? mean(weights, {1}) : Tensor()};
}

AttentionResult MultiheadAttention::operator()(const Tensor& query,
                                               const Tensor& key,
                                               const Tensor& value,
                                               const AttentionMasks& masks,
                                               bool needWeights) {
  const ModuleScope scope(*this);
  requireSequence(query, embedding_, "a query");
  requireSequence(key, options_.kdim.value_or(embedding_), "a key");
  requireSequence(value, options_.vdim.value_or(embedding_), "a value");
  const std::vector<Tensor> parts = project(query, key, value);
  const Tensor& q = parts[0];
  const Shape scores{q.shape(0), heads_, q.shape(2), parts[1].shape(2)};
  const bool onlyCausal = masks.causal && !masks.attention.defined() && !masks.keyPadding.defined();
  const bool drops = options_.dropout > 0.0 && isTraining() && Tracer::current().training();
  AttentionResult result;
  if (drops || needWeights) {
    result = weighted(parts, combinedMask(masks, scores), needWeights);
  } else {
    Tensor mask = onlyCausal ? Tensor() : combinedMask(masks, scores);
    if (mask.defined() && mask.dtype() == DType::Bool) {
      mask = logicalNot(mask);  // the function keeps what is true
    }
    result.output =
        scaledDotProductAttention(q, parts[1], parts[2], {.mask = mask, .causal = onlyCausal});
  }
  const Tensor joined =
      reshape(permute(result.output, {0, 2, 1, 3}), {q.shape(0), q.shape(2), embedding_});
  const Tensor y = outProj_(joined);
  return {options_.batchFirst ? y : transpose(y, 0, 1), result.weights};
}

TransformerLayer::TransformerLayer(Module& parent,
                                   std::string name,
                                   std::int64_t embedding,
                                   std::int64_t heads,
                                   const TransformerLayerOptions& options)
    : Layer(parent, std::move(name)),
      selfAttention_(
          *this,
          "self_attn",
          embedding,
          heads,
          {.dropout = options.dropout, .batchFirst = options.batchFirst, .dtype = options.dtype}),
      linear1_(*this, "linear1", embedding, options.feedforward, {.dtype = options.dtype}),
      linear2_(*this, "linear2", options.feedforward, embedding, {.dtype = options.dtype}),
      activation_(options.activation),
      dropout_(options.dropout),
      normFirst_(options.normFirst) {}

Tensor TransformerLayer::attend(MultiheadAttention& attention,
                                const Tensor& query,
                                const Tensor& memory,
                                const AttentionMasks& masks) {
  return dropout(attention(query, memory, memory, masks).output, dropout_, isTraining());
}

Tensor TransformerLayer::feedForward(const Tensor& x) {
  const Tensor inner = linear1_(x);
  const Tensor active = activation_ == TransformerActivation::Relu ? relu(inner) : gelu(inner);
  return dropout(linear2_(dropout(active, dropout_, isTraining())), dropout_, isTraining());
}

TransformerEncoderLayer::TransformerEncoderLayer(Module& parent,
                                                 std::string name,
                                                 std::int64_t embedding,
                                                 std::int64_t heads,
                                                 TransformerLayerOptions options)
    : TransformerLayer(parent, std::move(name), embedding, heads, options),
      norm1_(*this, "norm1", embedding, {.eps = options.eps, .dtype = options.dtype}),
      norm2_(*this, "norm2", embedding, {.eps = options.eps, .dtype = options.dtype}) {}

Tensor TransformerEncoderLayer::encode(const Tensor& x, const AttentionMasks& masks) {
  const Tensor mixed =
      residual(x, norm1_, [&](const Tensor& in) { return attend(selfAttention_, in, in, masks); });
  return residual(mixed, norm2_, [&](const Tensor& in) { return feedForward(in); });
}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  return encode(x, masks);
}

TransformerDecoderLayer::TransformerDecoderLayer(Module& parent,
                                                 std::string name,
                                                 std::int64_t embedding,
                                                 std::int64_t heads,
                                                 TransformerLayerOptions options)
    : TransformerLayer(parent, std::move(name), embedding, heads, options),
      memoryAttention_(
          *this,
          "multihead_attn",
          embedding,
          heads,
          {.dropout = options.dropout, .batchFirst = options.batchFirst, .dtype = options.dtype}),
      norm1_(*this, "norm1", embedding, {.eps = options.eps, .dtype = options.dtype}),
      norm2_(*this, "norm2", embedding, {.eps = options.eps, .dtype = options.dtype}),
      norm3_(*this, "norm3", embedding, {.eps = options.eps, .dtype = options.dtype}) {}

Tensor TransformerDecoderLayer::forward(const Tensor& x) {
  raise<InvalidArgument>(
      "{}: a decoder layer also reads the encoder's output; call layer(x, memory) with x {}",
      description(),
      x.type().str());
}

Tensor TransformerDecoderLayer::operator()(const Tensor& x,
                                           const Tensor& memory,
                                           const DecoderMasks& masks) {
  const ModuleScope scope(*this);
  const Tensor own = residual(
      x, norm1_, [&](const Tensor& in) { return attend(selfAttention_, in, in, masks.target); });
  const Tensor mixed = residual(own, norm2_, [&](const Tensor& in) {
    return attend(memoryAttention_, in, memory, masks.memory);
  });
  return residual(mixed, norm3_, [&](const Tensor& in) { return feedForward(in); });
}

Tensor rotaryEmbedding(const Tensor& x, const RotaryOptions& options) {
  if (x.rank() < 2 || x.shape(-1) % 2 != 0) {
    raise<InvalidArgument>("rotaryEmbedding: expected [..., length, an even size], got {}",
                           x.type().str());
  }
  if (!(options.base > 0.0)) {
    raise<InvalidArgument>("rotaryEmbedding: the base is {}, expected a number above 0",
                           options.base);
  }
  const std::int64_t length = x.shape(-2);
  const std::int64_t half = x.shape(-1) / 2;
  HostTensor cosines(x.dtype(), Shape{length, half});
  HostTensor sines(x.dtype(), Shape{length, half});
  for (std::int64_t i = 0; i < length * half; ++i) {
    const double power = static_cast<double>(i % half) / static_cast<double>(half);
    const std::int64_t position = i / half + options.start;
    const double angle = static_cast<double>(position) * std::pow(options.base, -power);
    cosines.set(i, std::cos(angle));
    sines.set(i, std::sin(angle));
  }
  std::vector<std::int64_t> dims = x.shape().dims();
  const std::int64_t axis = options.interleaved ? x.rank() : x.rank() - 1;
  if (options.interleaved) {
    dims.back() = half;
    dims.push_back(2);
  }
  const Tensor pairs = reshape(x, dims);
  const std::vector<Tensor> parts =
      options.interleaved ? unbind(pairs, axis) : split(pairs, {half, half}, axis);
  const Tensor c = constant(cosines);
  const Tensor s = constant(sines);
  const Tensor first = parts[0] * c - parts[1] * s;
  const Tensor second = parts[1] * c + parts[0] * s;
  return options.interleaved ? reshape(stack({first, second}, axis), x.shape().dims())
                             : concat({first, second}, axis);
}

}  // namespace sluice::nn
