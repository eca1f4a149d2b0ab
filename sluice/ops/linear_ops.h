// Linear algebra, transforms and attention. One of the headers of ops.h, which says what they have
// in common.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/ops/op_options.h"  // IWYU pragma: export

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kDet, kDetGrad, kDft, kEinsum, kMatMul, kScaledDotProductAttention,
    kScaledDotProductAttentionGrad;

// Linear algebra.
/// The determinants of the matrices in the last two axes.
Value det(GraphBuilder& b, Value x);
/// dy times the cofactors of x.
Value detGrad(GraphBuilder& b, Value x, Value dy);
/// The discrete Fourier transform of complex numbers (pairs in the last axis) along an axis; the
/// inverse divides by the extent of the axis.
Value dft(GraphBuilder& b, Value x, std::int64_t axis, bool inverse = false);
/// A sum of products by index letters, like NumPy's einsum: "ij,jk->ik".
Value einsum(GraphBuilder& b, std::string_view equation, std::vector<Value> operands);
/// Any rank with broadcast batch axes, like NumPy's matmul.
Value matmul(GraphBuilder& b, Value x, Value y, MatMulOptions options = {});

struct AttentionOptions {
  Value mask = {};      ///< none, bool (true keeps) or float (added), broadcast to [.., L, S]
  double scale = 0.0;   ///< 0: 1 / sqrt(E)
  bool causal = false;  ///< query i sees only keys 0 to i
};
/// q [.., L, E], k [.., S, E], v [.., S, Ev] give [.., L, Ev]. Output 1 of the op has the logarithm
/// of the sum of the exponentials of each row's scores.
Value scaledDotProductAttention(
    GraphBuilder& b, Value q, Value k, Value v, const AttentionOptions& options = {});

}  // namespace sluice::ops
