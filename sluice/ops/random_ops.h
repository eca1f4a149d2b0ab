// Random numbers. One of the headers of ops.h, which says what they have in common.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kDropout, kRandomNormal, kRandomUniform, kStochasticCast;

// Random numbers: each call takes a new ordinal, which fixes its stream (rule R6).
/// Zeros elements with probability p and scales the others by 1 / (1 - p).
Value dropout(GraphBuilder& b, Value x, double p);
Value randomNormal(GraphBuilder& b,
                   const TensorType& type,
                   double mean = 0.0,
                   double deviation = 1.0);
Value randomUniform(GraphBuilder& b, const TensorType& type, double low = 0.0, double high = 1.0);
/// Casts f32 to f16 or bf16, rounding up or down at random so that the mean is preserved. `count`
/// is a float scalar that differs from run to run and replaces the micro-batch, so that all
/// replicas agree.
Value stochasticCast(GraphBuilder& b, Value x, Value count, DType dtype);

}  // namespace sluice::ops
