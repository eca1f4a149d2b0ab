// New tensors, the same elements in another type or role, and elements moved by fixed rules. One of
// the headers of ops.h, which says what they have in common.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/ir/graph_builder.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kBroadcastTo, kCast, kConcat, kDetach, kGather, kIdentity, kIota, kNop,
    kOneHot, kPad, kRecomputationCheckpoint, kReplicaGather, kReplicaScatter, kReplicaSum,
    kReplicaSumScatter, kReshape, kReverse, kScatterAdd, kSlice, kSliceScatter, kSplit, kTile,
    kTranspose, kTrilu;

// New tensors.
/// One value everywhere.
Value full(GraphBuilder& b, const TensorType& type, double value);
/// 0, 1, 2 ... along the axis.
Value iota(GraphBuilder& b, const TensorType& type, std::int64_t axis = 0);
/// A new axis that is 1 at the index and 0 elsewhere.
Value oneHot(GraphBuilder& b,
             Value indices,
             std::int64_t depth,
             DType dtype = DType::F32,
             std::int64_t axis = -1);

// The same elements.
/// Identity when x already has the type.
Value cast(GraphBuilder& b, Value x, DType dtype);
/// No gradient passes.
Value detach(GraphBuilder& b, Value x);
Value identity(GraphBuilder& b, Value x);
/// x, kept when activations are recomputed.
Value recomputationCheckpoint(GraphBuilder& b, Value x);
// Between replicas. A number of replicas above 0 is one that a model must be run with.
/// The sum over all replicas, in replica order.
Value replicaSum(GraphBuilder& b, Value x, std::int64_t replicas = 0);
/// The parts [n] of all replicas behind each other, without what is more than the shape holds.
Value replicaGather(GraphBuilder& b, Value part, const Shape& shape, std::int64_t replicas = 0);
/// The part [n] that a replica keeps of a value that all of them have, padded with zeros.
Value replicaScatter(GraphBuilder& b, Value x, std::int64_t replicas);
/// The part [n] of a replica of the sum over all of them.
Value replicaSumScatter(GraphBuilder& b, Value x, std::int64_t replicas);
/// Whether the result depends on the operands of other replicas: replica_sum, replica_gather and
/// replica_sum_scatter.
bool crossesReplicas(const ir::OpDef& def);
/// Never removed or merged.
Value nop(GraphBuilder& b, Value x);

// Shape.
Value broadcastTo(GraphBuilder& b, Value x, const Shape& shape);
Value concat(GraphBuilder& b, std::vector<Value> values, std::int64_t axis);
/// Axes first to last become one.
Value flatten(GraphBuilder& b, Value x, std::int64_t first = 0, std::int64_t last = -1);
/// Indices of i32 or i64, negative ones count from the end; their shape replaces the axis.
Value gather(GraphBuilder& b, Value x, Value indices, std::int64_t axis = 0);
/// mode: constant, reflect or edge.
Value pad(GraphBuilder& b,
          Value x,
          std::vector<std::int64_t> before,
          std::vector<std::int64_t> after,
          std::string_view mode = "constant",
          double value = 0.0);
Value reshape(GraphBuilder& b, Value x, const Shape& shape);
/// Empty axes: all.
Value reverse(GraphBuilder& b, Value x, std::vector<std::int64_t> axes = {});
/// data with the updates added to the rows that gather(data, indices, axis) would read.
Value scatterAdd(GraphBuilder& b, Value data, Value indices, Value updates, std::int64_t axis = 0);
/// One start, end and step per axis, as NumPy; no steps: all 1.
Value slice(GraphBuilder& b,
            Value x,
            std::vector<std::int64_t> starts,
            std::vector<std::int64_t> ends,
            std::vector<std::int64_t> steps = {});
/// Zeros of `shape` with x placed where slice would take it from.
Value sliceScatter(GraphBuilder& b,
                   Value x,
                   const Shape& shape,
                   std::vector<std::int64_t> starts,
                   std::vector<std::int64_t> ends,
                   std::vector<std::int64_t> steps = {});
std::vector<Value> split(GraphBuilder& b,
                         Value x,
                         std::int64_t axis,
                         std::vector<std::int64_t> sizes);
/// Drops axes of extent 1; empty axes: all of them.
Value squeeze(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes = {});
Value tile(GraphBuilder& b, Value x, std::vector<std::int64_t> repeats);
/// Empty permutation: reverses the axes.
Value transpose(GraphBuilder& b, Value x, std::vector<std::int64_t> permutation = {});
/// The upper (column - row >= diagonal) or lower triangle of the last two axes.
Value trilu(GraphBuilder& b, Value x, bool upper, std::int64_t diagonal = 0);
/// Adds axes of extent 1 at these positions of the result.
Value unsqueeze(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes);

}  // namespace sluice::ops
