// Random numbers. One of the headers of ops.h, which says what they have in common.
#pragma once

#include "sluice/ir/graph_builder.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kDropout, kRandomNormal, kRandomUniform;

// Random numbers: each call takes a fresh ordinal, which fixes its stream (rule R6).
/// Zeros elements with probability p and scales the others by 1 / (1 - p).
Value dropout(GraphBuilder& b, Value x, double p);
Value randomNormal(GraphBuilder& b,
                   const TensorType& type,
                   double mean = 0.0,
                   double deviation = 1.0);
Value randomUniform(GraphBuilder& b, const TensorType& type, double low = 0.0, double high = 1.0);

}  // namespace sluice::ops
