// Convolution and pooling, with their gradients. One of the headers of ops.h, which says what they
// have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/ops/op_options.h"  // IWYU pragma: export

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kAvgPool, kAvgPoolGrad, kConv, kConvGradInput, kConvGradWeight, kMaxPool,
    kMaxPoolGrad;

// x is [batch, channels, one to three spatial axes].
/// w is [out channels, channels / groups, kernel...].
Value conv(GraphBuilder& b, Value x, Value w, const ConvOptions& options = {});
Value convGradInput(
    GraphBuilder& b, Value w, Value dy, const Shape& inputShape, const ConvOptions& options = {});
Value convGradWeight(
    GraphBuilder& b, Value x, Value dy, const Shape& weightShape, const ConvOptions& options = {});
/// The maxima; output 1 of the op holds their offsets inside the windows.
Value maxPool(GraphBuilder& b, Value x, const PoolOptions& options);
Value maxPoolGrad(
    GraphBuilder& b, Value indices, Value dy, const Shape& inputShape, const PoolOptions& options);
Value avgPool(GraphBuilder& b, Value x, const PoolOptions& options);
Value avgPoolGrad(GraphBuilder& b, Value dy, const Shape& inputShape, const PoolOptions& options);
/// The mean over all spatial axes, each of which becomes extent 1.
Value globalAvgPool(GraphBuilder& b, Value x);

}  // namespace sluice::ops
