// One function per op: appends it to the builder's graph and returns its result. Gradients,
// composites and front ends are written with these. Shapes and types are checked by the op itself,
// which throws InvalidArgument.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/ir/graph_builder.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

// Element-wise, two operands, NumPy broadcasting, equal dtypes.
Value add(GraphBuilder& b, Value x, Value y);
Value mul(GraphBuilder& b, Value x, Value y);

// Element-wise, one operand.
Value exp(GraphBuilder& b, Value x);
Value neg(GraphBuilder& b, Value x);

// Reductions. Empty axes: all. Negative axes count from the end.
Value reduceSum(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
/// Sums a broadcast result back to `shape` (identity when it already has it).
Value sumTo(GraphBuilder& b, Value x, const Shape& shape);

// Shape.
Value reshape(GraphBuilder& b, Value x, const Shape& shape);
/// Empty permutation: reverses the axes.
Value transpose(GraphBuilder& b, Value x, std::vector<std::int64_t> permutation = {});
Value broadcastTo(GraphBuilder& b, Value x, const Shape& shape);

// Linear algebra.
struct MatMulOptions {
  bool transposeA = false;  ///< of the last two axes
  bool transposeB = false;
};
/// Any rank with broadcast batch axes, as NumPy's matmul.
Value matmul(GraphBuilder& b, Value x, Value y, MatMulOptions options = {});

}  // namespace sluice::ops
