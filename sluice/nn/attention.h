// Attention and transformer layers. MultiHeadAttention works on [batch, length, embedding], and its
// masks keep where they are true. All others have PyTorch's names and semantics: masks forbid where
// they are true, and sequences are [length, batch, features] unless batchFirst is set. The weights
// of both kinds of attention have PyTorch's names: "in_proj_weight" (the rows for queries, then
// keys, then values), "in_proj_bias" and the layer "out_proj".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/nn/activation.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/linear.h"
#include "sluice/nn/module.h"
#include "sluice/nn/norm.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

struct MultiHeadOptions {
  bool causal = false;  ///< position i sees only positions 0 to i
  bool bias = true;
  DType dtype = DType::F32;
};

/// Attention over [batch, length, embedding]. Its masks keep where they are true; see also
/// MultiheadAttention.
class MultiHeadAttention : public Layer {
 public:
  MultiHeadAttention(Module& parent,
                     std::string name,
                     std::int64_t embedding,
                     std::int64_t heads,
                     MultiHeadOptions options = {});
  std::string kind() const override { return "MultiHeadAttention"; }
  /// Self-attention.
  Tensor forward(const Tensor& x) override;
  /// Attention from each position of `query` to all positions of `key` and `value`. The mask, if
  /// any, is broadcast to [batch, heads, query length, key length]. A bool mask keeps the positions
  /// where it is true; a float mask is added.
  Tensor attend(const Tensor& query,
                const Tensor& key,
                const Tensor& value,
                const Tensor& mask = {});

  Parameter& inProjWeight;  ///< [3 embedding, embedding]
  Parameter* inProjBias;    ///< [3 embedding] or null
  Linear outProj;

 private:
  void requireSequence(const Tensor& x, std::string_view what) const;
  Tensor combine(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask);

  std::int64_t embedding_;
  std::int64_t heads_;
  bool causal_;
};

struct MultiheadAttentionOptions {
  double dropout = 0.0;  ///< of the attention weights, in training
  bool bias = true;
  std::optional<std::int64_t> kdim =
      {};  ///< features of keys and of values; not set: the embedding
  std::optional<std::int64_t> vdim = {};
  bool batchFirst = false;
  DType dtype = DType::F32;
};

/// All may be absent. A bool mask forbids where it is true; a float mask is added to the scores.
struct AttentionMasks {
  Tensor attention = {};   ///< [L, S] or [batch * heads, L, S]
  Tensor keyPadding = {};  ///< [batch, S], bool
  bool causal = false;     ///< position i sees only positions 0 to i
};

struct AttentionResult {
  Tensor output;
  Tensor weights;  ///< [batch, L, S], the mean over the heads; only if asked for
};

/// PyTorch's attention. Parameters: "in_proj_weight" (or "q_proj_weight", "k_proj_weight" and
/// "v_proj_weight" if kdim or vdim differs), "in_proj_bias" and "out_proj".
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(Module& parent,
                     std::string name,
                     std::int64_t embedding,
                     std::int64_t heads,
                     MultiheadAttentionOptions options = {});
  std::string kind() const override { return "MultiheadAttention"; }
  AttentionResult operator()(const Tensor& query,
                             const Tensor& key,
                             const Tensor& value,
                             const AttentionMasks& masks = {},
                             bool needWeights = false);

 private:
  std::vector<Tensor> project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor combinedMask(const AttentionMasks& masks, const Shape& scores) const;
  AttentionResult weighted(const std::vector<Tensor>& parts, const Tensor& mask, bool needWeights);
  void requireSequence(const Tensor& x, std::int64_t features, std::string_view what) const;

  std::int64_t embedding_;
  std::int64_t heads_;
  MultiheadAttentionOptions options_;
  Parameter* inProjWeight_ = nullptr;
  std::vector<Parameter*> projections_;  // of queries, keys and values, if they are separate
  Parameter* inProjBias_ = nullptr;
  Linear outProj_;
};

enum class TransformerActivation : std::uint8_t { Relu, Gelu };

struct TransformerLayerOptions {
  std::int64_t feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::Relu;
  double eps = 1e-5;
  bool batchFirst = false;
  bool normFirst = false;
  DType dtype = DType::F32;
};

/// What both transformer layers share: "self_attn", "linear1", "linear2" and the feed-forward part.
class TransformerLayer : public Layer {
 protected:
  TransformerLayer(Module& parent,
                   std::string name,
                   std::int64_t embedding,
                   std::int64_t heads,
                   const TransformerLayerOptions& options);
  /// Adds a part of the layer to x, normalized before the part or after the sum.
  template <class Part>
  Tensor residual(const Tensor& x, LayerNorm& norm, Part part) {
    return normFirst_ ? x + part(norm(x)) : norm(x + part(x));
  }
  Tensor attend(MultiheadAttention& attention,
                const Tensor& query,
                const Tensor& memory,
                const AttentionMasks& masks);
  Tensor feedForward(const Tensor& x);

  MultiheadAttention selfAttention_;

 private:
  Linear linear1_;
  Linear linear2_;
  TransformerActivation activation_;
  double dropout_;
  bool normFirst_;
};

/// Self-attention and a feed-forward part. Also has "norm1" and "norm2".
class TransformerEncoderLayer : public TransformerLayer {
 public:
  TransformerEncoderLayer(Module& parent,
                          std::string name,
                          std::int64_t embedding,
                          std::int64_t heads,
                          TransformerLayerOptions options = {});
  std::string kind() const override { return "TransformerEncoderLayer"; }
  Tensor forward(const Tensor& x) override { return encode(x, {}); }
  Tensor operator()(const Tensor& x, const AttentionMasks& masks);
  using Layer::operator();

 private:
  Tensor encode(const Tensor& x, const AttentionMasks& masks);

  LayerNorm norm1_;
  LayerNorm norm2_;
};

struct DecoderMasks {
  AttentionMasks target = {};
  AttentionMasks memory = {};
};

/// The same with attention to a memory. Also has "multihead_attn", which reads the memory, and
/// "norm1" to "norm3".
class TransformerDecoderLayer : public TransformerLayer {
 public:
  TransformerDecoderLayer(Module& parent,
                          std::string name,
                          std::int64_t embedding,
                          std::int64_t heads,
                          TransformerLayerOptions options = {});
  std::string kind() const override { return "TransformerDecoderLayer"; }
  /// Throws InvalidArgument: a decoder layer needs a memory.
  Tensor forward(const Tensor& x) override;
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {});

 private:
  MultiheadAttention memoryAttention_;
  LayerNorm norm1_;
  LayerNorm norm2_;
  LayerNorm norm3_;
};

struct RotaryOptions {
  double base = 10000.0;
  std::int64_t start = 0;    ///< the position of the first element
  bool interleaved = false;  ///< turns neighbours (0, 1), (2, 3) instead of the two halves
};
/// Turns pairs of features of x [..., length, size] by angles that grow with the position.
Tensor rotaryEmbedding(const Tensor& x, const RotaryOptions& options = {});

}  // namespace sluice::nn

#pragma GCC visibility pop
