// Ops that pick, place and order elements and blocks by indices or values in operands. One of the
// headers of ops.h, which says what they have in common.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kBucketize, kDynamicSlice, kDynamicUpdate, kGatherElements, kGatherNd,
    kReverseSequence, kScatterElements, kScatterNd, kSequenceRows, kTopK;

// Indexing by element or tuple. Indices are i32 or i64; negative ones count from the end.
/// The position of the smallest element (the first of equal ones) as i64.
Value argMin(GraphBuilder& b, Value x, std::int64_t axis, bool keepDims = false);
/// One element per index: at the index on this axis and at the index's own position on the others.
Value gatherElements(GraphBuilder& b, Value x, Value indices, std::int64_t axis = 0);
/// The last axis of `indices` holds coordinates after the first `batchDims` axes, which both share.
Value gatherNd(GraphBuilder& b, Value x, Value indices, std::int64_t batchDims = 0);
/// For each element, how many of the sorted boundaries lie below it (right: or equal it), as i64.
Value bucketize(GraphBuilder& b, Value x, Value boundaries, bool right = false);
/// The block of these sizes at the offsets in an operand, one offset per axis in `axes`.
Value dynamicSlice(GraphBuilder& b,
                   Value x,
                   Value offsets,
                   std::vector<std::int64_t> axes,
                   std::vector<std::int64_t> sizes);
/// x with the block replaced by `update`.
Value dynamicUpdate(
    GraphBuilder& b, Value x, Value offsets, Value update, std::vector<std::int64_t> axes);
/// For each of `rows` rows, which of `sourceRows` rows lands there if run i copies counts[i] rows
/// from sourceOffsets[i] to offsets[i]; -1 if none does. As i64.
struct SequenceRuns {
  Value counts;
  Value sourceOffsets;
  Value offsets;
};
Value sequenceRows(GraphBuilder& b,
                   const SequenceRuns& runs,
                   std::int64_t sourceRows,
                   std::int64_t rows);
/// Reverses the first `lengths` steps of each sequence.
Value reverseSequence(
    GraphBuilder& b, Value x, Value lengths, std::int64_t batchAxis = 1, std::int64_t timeAxis = 0);
/// `data` with updates where gatherElements would read. reduction: none, add, mul, max or min.
Value scatterElements(GraphBuilder& b,
                      Value data,
                      Value indices,
                      Value updates,
                      std::int64_t axis = 0,
                      std::string_view reduction = "none");
/// `data` with updates where gatherNd would read.
Value scatterNd(GraphBuilder& b,
                Value data,
                Value indices,
                Value updates,
                std::string_view reduction = "none",
                std::int64_t batchDims = 0);
struct TopKValues {
  Value values;
  Value indices;  ///< i64
};
/// The k largest (or smallest) elements in order; among equal elements the first comes first.
TopKValues topK(
    GraphBuilder& b, Value x, std::int64_t k, std::int64_t axis = -1, bool largest = true);

}  // namespace sluice::ops
