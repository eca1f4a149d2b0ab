// scaled_dot_product_attention_grad: dq, dk and dv from (q, k, v, output, logarithms of the rows'
// sums, output gradient, and the mask if there is one). With weights p = exp(scores - logarithm)
// and dp = dy v^T: dv = p^T dy, dscores = p * (dp - sum(dy * y)), dq and dk as of any product.
#include "sluice/ops/attention.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

constexpr std::size_t kMaskAt = 6;

std::vector<TensorType> infer(const ir::OpView& op) {
  const AttentionDims d = attentionDims(op, kMaskAt);
  const DType dtype = op.inputs[0].dtype;
  const TensorType output = {dtype, d.with({d.rows, d.valueWidth})};
  requireType(op, 3, "the output", output);
  requireType(op, 4, "the logarithm of the sums", {statisticsType(dtype), d.with({d.rows})});
  requireType(op, 5, "the output gradient", output);
  return {op.inputs[0], op.inputs[1], op.inputs[2]};
}

/// The weights by softmax, as the parts of the forward op have them.
std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const AttentionDims d = attentionDims(op, kMaskAt);
  const AttentionInputs in{
      inputs[0], inputs[1], inputs[2], d.mask != 0 ? inputs[kMaskAt] : Value()};
  const Value dy = inputs[5];
  const Value weights = softmax(b, attentionScores(b, d, in), -1);
  const Value dWeights = sumTo(b, matmul(b, dy, in.v, {.transposeB = true}), b.shape(weights));
  const Value dv = sumTo(b, matmul(b, weights, dy, {.transposeA = true}), b.shape(in.v));
  const AttentionGradients made =
      attentionScoresGrad(b, d, in, softmaxGrad(b, weights, dWeights, -1));
  return {made.q, made.k, dv};
}

ir::Cost cost(const ir::OpView& op) {
  const AttentionDims d = attentionDims(op, kMaskAt);
  constexpr double kPerScore = 8;
  const double products =
      6.0 * static_cast<double>(d.width) + 4.0 * static_cast<double>(d.valueWidth);
  return costOfFlops(op, d.scores() * (products + kPerScore));
}

}  // namespace

constinit const ir::OpDef kScaledDotProductAttentionGrad{
    .name = "scaled_dot_product_attention_grad",
    .minInputs = 6,
    .maxInputs = 7,
    .outputs = 3,
    .attrs = kAttentionAttrs,
    .infer = infer,
    .cost = cost,
    .decompose = decompose};

}  // namespace sluice::ops
