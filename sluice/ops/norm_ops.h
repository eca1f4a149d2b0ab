// Softmax and normalization. One of the headers of ops.h, which says what they have in common.
#pragma once

#include <cstdint>

#include "sluice/ir/graph.h"
#include "sluice/ops/op_options.h"  // IWYU pragma: export

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kBatchNorm, kBatchNormGrad, kBatchNormInference, kGroupNorm, kLayerNorm,
    kLayerNormGrad, kLogSoftmax, kLogSoftmaxGrad, kRmsNorm, kRmsNormGrad, kSoftmax, kSoftmaxGrad;

Value softmax(GraphBuilder& b, Value x, std::int64_t axis = -1);
Value softmaxGrad(GraphBuilder& b, Value y, Value dy, std::int64_t axis);
Value logSoftmax(GraphBuilder& b, Value x, std::int64_t axis = -1);
Value logSoftmaxGrad(GraphBuilder& b, Value y, Value dy, std::int64_t axis);
/// Outputs 1 and 2 of the op are the mean and the reciprocal standard deviation.
Value layerNorm(GraphBuilder& b, Value x, Value gamma, Value beta, NormOptions options = {});
/// Output 1 of the op is the reciprocal root mean square.
Value rmsNorm(GraphBuilder& b, Value x, Value gamma, NormOptions options = {});
struct BatchNormValues {
  Value y;
  Value mean;
  Value variance;  ///< biased
};
/// Training form: uses the batch's own statistics, per channel (axis 1).
BatchNormValues batchNorm(GraphBuilder& b, Value x, Value gamma, Value beta, double epsilon = 1e-5);
struct BatchNormInputs {
  Value gamma;
  Value beta;
  Value mean;
  Value variance;
};
/// Inference form: uses the given statistics, which are f32 (f64 for f64).
Value batchNormInference(GraphBuilder& b,
                         Value x,
                         const BatchNormInputs& inputs,
                         double epsilon = 1e-5);
Value groupNorm(
    GraphBuilder& b, Value x, Value gamma, Value beta, std::int64_t groups, double epsilon = 1e-5);

}  // namespace sluice::ops
