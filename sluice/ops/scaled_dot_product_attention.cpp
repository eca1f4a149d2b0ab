// scaled_dot_product_attention: softmax(q k^T * scale + mask) v for q [.., L, E], k [.., S, E] and
// v [.., S, Ev]. A bool mask keeps where it is true, a float one is added. Positions that are
// masked get the lowest finite score, so a row with nothing to attend to is a mean, not NaN. The
// second result is the logarithm of the sum of every row's exponentials, from which the gradient
// computes the weights again. So a kernel need not keep the scores of more than a block of rows.
#include <algorithm>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/attention.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::size_t kMaskAt = 3;

std::vector<TensorType> infer(const ir::OpView& op) {
  const AttentionDims d = attentionDims(op, kMaskAt);
  const DType dtype = op.inputs[0].dtype;
  return {{dtype, d.with({d.rows, d.valueWidth})}, {statisticsType(dtype), d.with({d.rows})}};
}

/// Each row's logarithm, for every matrix of the result: v may have more than q and k. What is
/// masked is the lowest number of its type, too.
Value logSums(GraphBuilder& b, const AttentionDims& d, Value scores) {
  const DType dtype = b.dtype(scores);
  const DType wideType = statisticsType(dtype);
  Value wide = cast(b, scores, wideType);
  if (wideType != dtype) {
    const Value masked = equal(b, scores, b.scalar(dtype, lowestScore(dtype)));
    wide = where(b, masked, b.scalar(wideType, lowestScore(wideType)), wide);
  }
  return broadcastTo(b, reduceLogSumExp(b, wide, {-1}), d.with({d.rows}));
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const AttentionDims d = attentionDims(op, kMaskAt);
  const Value scores = attentionScores(
      b, d, {inputs[0], inputs[1], inputs[2], d.mask != 0 ? inputs[kMaskAt] : Value()});
  return {matmul(b, softmax(b, scores, -1), inputs[2]), logSums(b, d, scores)};
}

/// Adds to the gradients what comes by way of the scores.
void addThroughScores(ir::GradContext& g,
                      const AttentionDims& d,
                      const AttentionInputs& in,
                      Value dScores,
                      std::vector<Value>& grads) {
  const AttentionGradients made = attentionScoresGrad(g.b, d, in, dScores);
  grads[0] = addIfAny(g.b, grads[0], made.q);
  grads[1] = addIfAny(g.b, grads[1], made.k);
  if (grads.size() > kMaskAt && made.mask.valid()) {
    grads[kMaskAt] = addIfAny(g.b, grads[kMaskAt], made.mask);
  }
}

/// By the op for it, unless a mask is learned: its gradient takes all scores.
std::vector<Value> grad(ir::GradContext& g) {
  GraphBuilder& b = g.b;
  const AttentionDims d = attentionDims(g.op, kMaskAt);
  const AttentionInputs in{
      g.input(0), g.input(1), g.input(2), d.mask != 0 ? g.input(kMaskAt) : Value()};
  const bool learnsMask = d.mask != 0 && g.needs(kMaskAt);
  std::vector<Value> grads(g.numInputs());
  if (g.grad(0).valid() && !learnsMask) {
    std::vector<Value> operands = {in.q, in.k, in.v, g.output(0), g.output(1), g.grad(0)};
    if (in.mask.valid()) {
      operands.push_back(in.mask);
    }
    const std::vector<Value> made =
        b.addMany(kScaledDotProductAttentionGrad,
                  std::move(operands),
                  {{"scale", g.op.attrs.real("scale")}, {"causal", d.causal}});
    std::ranges::copy(made, grads.begin());
  }
  if (!g.grad(1).valid() && !(g.grad(0).valid() && learnsMask)) {
    return grads;
  }
  const Value weights = softmax(b, attentionScores(b, d, in), -1);
  if (g.grad(0).valid() && learnsMask) {
    const Value dWeights =
        sumTo(b, matmul(b, g.grad(0), in.v, {.transposeB = true}), b.shape(weights));
    grads[2] = sumTo(b, matmul(b, weights, g.grad(0), {.transposeA = true}), g.op.inputs[2].shape);
    addThroughScores(g, d, in, softmaxGrad(b, weights, dWeights, -1), grads);
  }
  if (g.grad(1).valid()) {
    const Value slopes = reshape(b, cast(b, g.grad(1), b.dtype(weights)), d.with({d.rows, 1}));
    addThroughScores(g, d, in, sumTo(b, mul(b, weights, slopes), b.shape(weights)), grads);
  }
  return grads;
}

ir::Cost cost(const ir::OpView& op) {
  const AttentionDims d = attentionDims(op, kMaskAt);
  constexpr double kPerScore = 8;  // mask, maximum, exponential, sum
  return costOfFlops(op,
                     d.scores() * (2.0 * static_cast<double>(d.width + d.valueWidth) + kPerScore));
}

}  // namespace

constinit const ir::OpDef kScaledDotProductAttention{
    .name = "scaled_dot_product_attention",
    .minInputs = 3,
    .maxInputs = 4,
    .outputs = 2,
    .attrs = kAttentionAttrs,
    .infer = infer,
    .grad = grad,
    .gradReads = {.inputs = 0b1111, .outputs = 0b11},
    .cost = cost,
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
