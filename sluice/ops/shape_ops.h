// Ops that make new tensors, give the same elements another type or role, and move elements by
// fixed rules. One of the headers of ops.h, which says what they have in common.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kBroadcastTo, kCast, kConcat, kDetach, kGather, kIdentity, kIota, kNop,
    kOneHot, kPad, kRecomputationCheckpoint, kReplicaGather, kReplicaScatter, kReplicaSum,
    kReplicaSumScatter, kReshape, kReverse, kScatterAdd, kSlice, kSliceScatter, kSplit,
    kTensorLocation, kTile, kTranspose, kTrilu;

// New tensors.
/// A tensor filled with one value.
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
/// Returns x itself if it already has the type.
Value cast(GraphBuilder& b, Value x, DType dtype);
/// x; no gradient passes through it.
Value detach(GraphBuilder& b, Value x);
Value identity(GraphBuilder& b, Value x);
/// x; it is kept when activations are recomputed.
Value recomputationCheckpoint(GraphBuilder& b, Value x);
/// x; while it is not needed it stays on its device (onChip) or goes to remote memory, whatever the
/// options say about its class of tensors.
Value tensorLocation(GraphBuilder& b, Value x, bool onChip);
// Between replicas. If `replicas` is above 0, the model must run with that number of replicas.
/// The sum over all replicas, in replica order.
Value replicaSum(GraphBuilder& b, Value x, std::int64_t replicas = 0);
/// The parts [n] of all replicas one after the other, cut to the number of elements of `shape`.
Value replicaGather(GraphBuilder& b, Value part, const Shape& shape, std::int64_t replicas = 0);
/// A replica's part [n] of a value that all replicas have, padded with zeros.
Value replicaScatter(GraphBuilder& b, Value x, std::int64_t replicas);
/// A replica's part [n] of the sum over all replicas.
Value replicaSumScatter(GraphBuilder& b, Value x, std::int64_t replicas);
/// Whether the result depends on the operands of other replicas: true for replica_sum,
/// replica_gather and replica_sum_scatter.
bool crossesReplicas(const ir::OpDef& def);
/// x; the op is never removed or merged.
Value nop(GraphBuilder& b, Value x);

// Shape.
Value broadcastTo(GraphBuilder& b, Value x, const Shape& shape);
Value concat(GraphBuilder& b, std::vector<Value> values, std::int64_t axis);
/// Merges axes `first` to `last` into one.
Value flatten(GraphBuilder& b, Value x, std::int64_t first = 0, std::int64_t last = -1);
/// The shape of the indices (i32 or i64; negative ones count from the end) replaces the axis.
Value gather(GraphBuilder& b, Value x, Value indices, std::int64_t axis = 0);
/// mode: constant, reflect or edge.
Value pad(GraphBuilder& b,
          Value x,
          std::vector<std::int64_t> before,
          std::vector<std::int64_t> after,
          std::string_view mode = "constant",
          double value = 0.0);
Value reshape(GraphBuilder& b, Value x, const Shape& shape);
/// Reverses these axes; empty axes mean all.
Value reverse(GraphBuilder& b, Value x, std::vector<std::int64_t> axes = {});
/// `data` with the updates added to the rows that gather(data, indices, axis) would read.
Value scatterAdd(GraphBuilder& b, Value data, Value indices, Value updates, std::int64_t axis = 0);
/// One start, end and step per axis, as in NumPy; empty steps mean 1.
Value slice(GraphBuilder& b,
            Value x,
            std::vector<std::int64_t> starts,
            std::vector<std::int64_t> ends,
            std::vector<std::int64_t> steps = {});
/// A tensor of zeros with x at the positions that slice would read.
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
/// Removes these axes, which must have extent 1; empty axes mean all axes of extent 1.
Value squeeze(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes = {});
Value tile(GraphBuilder& b, Value x, std::vector<std::int64_t> repeats);
/// An empty permutation reverses the axes.
Value transpose(GraphBuilder& b, Value x, std::vector<std::int64_t> permutation = {});
/// The upper (column - row >= diagonal) or lower triangle of the last two axes.
Value trilu(GraphBuilder& b, Value x, bool upper, std::int64_t diagonal = 0);
/// Adds axes of extent 1 at these positions of the result.
Value unsqueeze(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes);

}  // namespace sluice::ops
