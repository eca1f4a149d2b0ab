// MultiHeadAttention over sequences [batch, length, embedding], with the parameters of PyTorch's
// module of that name: "in_proj_weight" (the rows for queries, then keys, then values),
// "in_proj_bias" and the layer "out_proj".
#pragma once

#include <cstdint>

#include "sluice/nn/functional.h"
#include "sluice/nn/linear.h"
#include "sluice/nn/module.h"

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

}  // namespace sluice::nn

#pragma GCC visibility pop
