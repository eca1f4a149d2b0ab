#include "sluice/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

std::int64_t fromEnd(const Shape& shape, std::int64_t i) {
  return shape[shape.rank() - i];
}

Shape leading(const Shape& shape) {
  return Shape(std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end() - 2));
}

void requireOperands(const ir::OpView& op) {
  for (const std::size_t i : {0U, 1U, 2U}) {
    requireDType(op, i, Accepts::Floating);
    if (op.inputs[i].dtype != op.inputs[0].dtype || op.inputs[i].shape.rank() < 2) {
      raise<InvalidArgument>(
          "{}: q, k and v must be of one element type and of rank 2 or more, got {} and {}",
          op.def.name,
          op.inputs[0].str(),
          op.inputs[i].str());
    }
  }
  const Shape& q = op.inputs[0].shape;
  const Shape& k = op.inputs[1].shape;
  const Shape& v = op.inputs[2].shape;
  if (fromEnd(q, 1) != fromEnd(k, 1) || fromEnd(k, 2) != fromEnd(v, 2)) {
    raise<InvalidArgument>(
        "{}: q [.., L, E], k [.., S, E] and v [.., S, Ev] do not fit together: {}, {} and {}",
        op.def.name,
        q.str(),
        k.str(),
        v.str());
  }
}

void requireMask(const ir::OpView& op, const TensorType& mask, const Shape& scores) {
  if (mask.dtype != DType::Bool && mask.dtype != op.inputs[0].dtype) {
    raise<InvalidArgument>("{}: the mask must be bool or {}, got {}",
                           op.def.name,
                           name(op.inputs[0].dtype),
                           mask.str());
  }
  if (broadcast(mask.shape, scores) != scores) {
    raise<InvalidArgument>("{}: the mask {} cannot be broadcast to the scores {}",
                           op.def.name,
                           mask.shape.str(),
                           scores.str());
  }
}

/// keep[i][j]: query i may see key j, the ones up to itself.
Value causalMask(GraphBuilder& b, const AttentionDims& d) {
  const Value query = iota(b, {DType::I32, Shape{d.rows, 1}}, 0);
  const Value key = iota(b, {DType::I32, Shape{1, d.keys}}, 1);
  return lessEqual(b, key, query);
}

}  // namespace

Shape AttentionDims::with(std::initializer_list<std::int64_t> last) const {
  std::vector<std::int64_t> dims = batch.dims();
  dims.insert(dims.end(), last);
  return Shape(std::move(dims));
}

double AttentionDims::scores() const {
  return static_cast<double>(batch.elements()) * static_cast<double>(rows) *
         static_cast<double>(keys);
}

AttentionDims attentionDims(const ir::OpView& op, std::size_t maskAt) {
  requireOperands(op);
  const Shape& q = op.inputs[0].shape;
  const Shape& k = op.inputs[1].shape;
  const Shape& v = op.inputs[2].shape;
  AttentionDims d{.rows = fromEnd(q, 2),
                  .keys = fromEnd(k, 2),
                  .width = fromEnd(q, 1),
                  .valueWidth = fromEnd(v, 1),
                  .scale = op.attrs.real("scale"),
                  .causal = op.attrs.flag("causal")};
  if (d.scale == 0.0) {
    d.scale = 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(d.width, 1)));
  }
  try {
    d.batch = broadcast(leading(q), leading(k));
    if (op.inputs.size() > maskAt) {
      d.mask = maskAt;
      requireMask(op, op.inputs[maskAt], d.with({d.rows, d.keys}));
    }
    d.batch = broadcast(d.batch, leading(v));
  } catch (Error& error) {
    error.at(op.def.name);
    throw;
  }
  return d;
}

double lowestScore(DType dtype) {
  constexpr double kLowestFloat16 = -65504.0;
  constexpr double kLowestBFloat16 = -0x1.FEp127;
  switch (dtype) {
    case DType::F16:
      return kLowestFloat16;
    case DType::BF16:
      return kLowestBFloat16;
    case DType::F64:
      return std::numeric_limits<double>::lowest();
    default:
      return static_cast<double>(std::numeric_limits<float>::lowest());
  }
}

Value attentionScores(GraphBuilder& b, const AttentionDims& d, const AttentionInputs& in) {
  const DType dtype = b.dtype(in.q);
  const Value lowest = b.scalar(dtype, lowestScore(dtype));
  Value scores = matmul(b, in.q, in.k, {.transposeB = true});
  scores = mul(b, scores, b.scalar(dtype, d.scale));
  if (in.mask.valid()) {
    scores = b.dtype(in.mask) == DType::Bool ? where(b, in.mask, scores, lowest)
                                             : add(b, scores, in.mask);
  }
  return d.causal ? where(b, causalMask(b, d), scores, lowest) : scores;
}

AttentionGradients attentionScoresGrad(GraphBuilder& b,
                                       const AttentionDims& d,
                                       const AttentionInputs& in,
                                       Value dScores) {
  const DType dtype = b.dtype(in.q);
  const Value zero = b.scalar(dtype, 0.0);
  AttentionGradients grads;
  if (d.causal) {
    dScores = where(b, causalMask(b, d), dScores, zero);
  }
  if (in.mask.valid()) {
    if (b.dtype(in.mask) == DType::Bool) {
      dScores = where(b, in.mask, dScores, zero);
    } else {
      grads.mask = sumTo(b, dScores, b.shape(in.mask));
    }
  }
  dScores = mul(b, dScores, b.scalar(dtype, d.scale));
  grads.q = sumTo(b, matmul(b, dScores, in.k), b.shape(in.q));
  grads.k = sumTo(b, matmul(b, dScores, in.q, {.transposeA = true}), b.shape(in.k));
  return grads;
}

}  // namespace sluice::ops
