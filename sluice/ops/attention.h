// Shared by scaled_dot_product_attention and its gradient: operands, extents and the parts of both.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/ir/op_def.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

inline constexpr std::array<ir::AttrSpec, 2> kAttentionAttrs = {
    {{.name = "scale", .kind = ir::AttrKind::Real},
     {.name = "causal", .kind = ir::AttrKind::Bool}}};

/// Of q [.., rows, width], k [.., keys, width] and v [.., keys, valueWidth].
struct AttentionDims {
  Shape batch;  ///< the leading axes of q, k and v, broadcast
  std::int64_t rows = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
  std::int64_t valueWidth = 0;
  double scale = 1.0;  ///< the attribute, or 1 / sqrt(width) if that is 0
  bool causal = false;
  std::size_t mask = 0;  ///< which operand it is; 0: there is none

  Shape with(std::initializer_list<std::int64_t> last) const;  ///< batch and these axes
  double scores() const;                                       ///< how many there are
};

/// Reads the first three operands and, if there are more than `maskAt`, the mask at that place.
/// Throws InvalidArgument if they do not fit together.
AttentionDims attentionDims(const ir::OpView& op, std::size_t maskAt);

/// Values of the operands; `mask` is invalid if there is none.
struct AttentionInputs {
  Value q;
  Value k;
  Value v;
  Value mask;
};

/// q k^T * scale with the mask, [.., rows, keys].
Value attentionScores(GraphBuilder& b, const AttentionDims& d, const AttentionInputs& in);

/// What a masked score of this type is: the lowest finite number.
double lowestScore(DType dtype);

/// The gradients of q, k and the mask from that of the masked scores. A bool mask has none.
struct AttentionGradients {
  Value q;
  Value k;
  Value mask;
};
AttentionGradients attentionScoresGrad(GraphBuilder& b,
                                       const AttentionDims& d,
                                       const AttentionInputs& in,
                                       Value dScores);

}  // namespace sluice::ops
