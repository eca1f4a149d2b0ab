// Activation functions, and those of their gradients that are separate ops. One of the headers of
// ops.h, which says what they have in common.
#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/ir/graph.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kCelu, kElu, kGelu, kGeluGrad, kHardSigmoid, kHardSwish, kHardmax,
    kLeakyRelu, kMish, kPrelu, kRelu, kReluGrad, kSelu, kShrink, kSigmoid, kSilu, kSoftplus,
    kSoftsign, kThresholdedRelu;

Value celu(GraphBuilder& b, Value x, double alpha = 1.0);
Value elu(GraphBuilder& b, Value x, double alpha = 1.0);
/// `approximate` is "none" (uses erf) or "tanh".
Value gelu(GraphBuilder& b, Value x, std::string_view approximate = "none");
Value geluGrad(GraphBuilder& b, Value x, Value dy, std::string_view approximate = "none");
/// 1 at the largest element along the axis (the first of equal ones) and 0 elsewhere.
Value hardmax(GraphBuilder& b, Value x, std::int64_t axis = -1);
Value hardSigmoid(GraphBuilder& b, Value x, double alpha = 0.2, double beta = 0.5);
Value hardSwish(GraphBuilder& b, Value x);
Value leakyRelu(GraphBuilder& b, Value x, double alpha = 0.01);
Value mish(GraphBuilder& b, Value x);
/// The slope for negative x is broadcast to x.
Value prelu(GraphBuilder& b, Value x, Value slope);
Value relu(GraphBuilder& b, Value x);
/// dy where relu's output y is above 0, else 0.
Value reluGrad(GraphBuilder& b, Value y, Value dy);
Value selu(GraphBuilder& b, Value x);
/// Moves x towards 0 by bias where |x| exceeds lambd; 0 elsewhere.
Value shrink(GraphBuilder& b, Value x, double lambd = 0.5, double bias = 0.0);
Value sigmoid(GraphBuilder& b, Value x);
Value silu(GraphBuilder& b, Value x);
Value softplus(GraphBuilder& b, Value x);
Value softsign(GraphBuilder& b, Value x);
Value thresholdedRelu(GraphBuilder& b, Value x, double alpha = 1.0);

}  // namespace sluice::ops
