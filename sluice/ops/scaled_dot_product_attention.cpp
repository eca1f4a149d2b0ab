// scaled_dot_product_attention: softmax(q k^T * scale + mask) v for q [.., L, E], k [.., S, E] and
// v [.., S, Ev]. A bool mask keeps where it is true, a float one is added. Positions that are
// masked get the lowest finite score, so a row with nothing to attend to is a mean, not NaN.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {{{.name = "scale", .kind = ir::AttrKind::Real},
                                                 {.name = "causal", .kind = ir::AttrKind::Bool}}};

std::int64_t fromEnd(const Shape& shape, std::int64_t i) {
  return shape[shape.rank() - i];
}

Shape withMatrix(const Shape& batched, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> dims(batched.dims().begin(), batched.dims().end() - 2);
  dims.insert(dims.end(), {rows, columns});
  return Shape(std::move(dims));
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

void requireMask(const ir::OpView& op, const Shape& scores) {
  const TensorType& mask = op.inputs[3];
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

std::vector<TensorType> infer(const ir::OpView& op) {
  requireOperands(op);
  const Shape& q = op.inputs[0].shape;
  const Shape& k = op.inputs[1].shape;
  const Shape& v = op.inputs[2].shape;
  try {
    const std::int64_t length = fromEnd(q, 2);
    const std::int64_t keys = fromEnd(k, 2);
    const Shape scores = broadcast(withMatrix(q, length, keys), withMatrix(k, length, keys));
    if (op.inputs.size() > 3) {
      requireMask(op, scores);
    }
    const std::int64_t width = fromEnd(v, 1);
    return {{op.inputs[0].dtype,
             broadcast(withMatrix(scores, length, width), withMatrix(v, length, width))}};
  } catch (Error& error) {
    error.at(op.def.name);
    throw;
  }
}

double lowestOf(DType dtype) {
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

/// keep[i][j]: query i may see key j, the ones up to itself.
Value causalMask(GraphBuilder& b, std::int64_t length, std::int64_t keys) {
  const Value query = iota(b, {DType::I32, Shape{length, 1}}, 0);
  const Value key = iota(b, {DType::I32, Shape{1, keys}}, 1);
  return lessEqual(b, key, query);
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const Shape& q = op.inputs[0].shape;
  const auto width = static_cast<double>(std::max<std::int64_t>(fromEnd(q, 1), 1));
  const double given = op.attrs.real("scale");
  const double scale = given == 0.0 ? 1.0 / std::sqrt(width) : given;
  const Value lowest = b.scalar(dtype, lowestOf(dtype));
  Value scores = matmul(b, inputs[0], inputs[1], {.transposeB = true});
  scores = mul(b, scores, b.scalar(dtype, scale));
  if (inputs.size() > 3) {
    scores = op.inputs[3].dtype == DType::Bool ? where(b, inputs[3], scores, lowest)
                                               : add(b, scores, inputs[3]);
  }
  if (op.attrs.flag("causal")) {
    const Value keep = causalMask(b, fromEnd(q, 2), fromEnd(op.inputs[1].shape, 2));
    scores = where(b, keep, scores, lowest);
  }
  return {matmul(b, softmax(b, scores, -1), inputs[2])};
}

}  // namespace

constinit const ir::OpDef kScaledDotProductAttention{.name = "scaled_dot_product_attention",
                                                     .minInputs = 3,
                                                     .maxInputs = 4,
                                                     .attrs = kAttrs,
                                                     .infer = infer,
                                                     .decompose = decompose};

Value scaledDotProductAttention(
    GraphBuilder& b, Value q, Value k, Value v, const AttentionOptions& options) {
  std::vector<Value> inputs = {q, k, v};
  if (options.mask.valid()) {
    inputs.push_back(options.mask);
  }
  return b.add(kScaledDotProductAttention,
               std::move(inputs),
               {{"scale", options.scale}, {"causal", options.causal}});
}

}  // namespace sluice::ops
