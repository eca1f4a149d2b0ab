// Reductions and running sums along axes. One of the headers of ops.h, which says what they have in
// common.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/ops/op_options.h"  // IWYU pragma: export

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kArgMax, kCumSum, kReduceLogSumExp, kReduceMax, kReduceMean, kReduceMin,
    kReduceProd, kReduceProdGrad, kReduceSum;

// Reductions. Empty axes mean all axes. Negative axes count from the end.
/// The position of the largest element (the first of equal ones) as i64.
Value argMax(GraphBuilder& b, Value x, std::int64_t axis, bool keepDims = false);
Value cumSum(GraphBuilder& b, Value x, std::int64_t axis, CumSumOptions options = {});
Value mean(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceLogSumExp(GraphBuilder& b,
                      Value x,
                      std::vector<std::int64_t> axes,
                      bool keepDims = false);
/// Equal maxima share the gradient equally; so do minima.
Value reduceMax(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceMean(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceMin(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceProd(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceProdGrad(GraphBuilder& b, Value x, Value dy, std::vector<std::int64_t> axes);
Value reduceSum(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
/// Sums a broadcast result back to `shape`; returns x itself if it already has that shape.
Value sumTo(GraphBuilder& b, Value x, const Shape& shape);
/// The mean of the squared differences from the mean.
Value variance(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);

}  // namespace sluice::ops
