// Ops that resample and rearrange images. One of the headers of ops.h, which says what they have in
// common.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/ops/op_options.h"  // IWYU pragma: export

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kGridSample, kGridSampleGrad, kResize, kRoiAlign, kRoiAlignGrad;

// Images: x is [batch, channels, height, width].
/// Channels become blocks of pixels. With depthFirst, the rows and columns of a block are the outer
/// part of the channel axis.
Value depthToSpace(GraphBuilder& b, Value x, std::int64_t blockSize, bool depthFirst = true);
Value spaceToDepth(GraphBuilder& b, Value x, std::int64_t blockSize);

/// Works on any rank; interpolates each axis whose extent changes separately.
Value resize(GraphBuilder& b, Value x, const ResizeOptions& options);
/// `grid` [batch, rows, columns, 2] holds positions (x, y) from -1 to 1.
Value gridSample(GraphBuilder& b, Value x, Value grid, const GridSampleOptions& options = {});
struct GridSampleGrads {
  Value x;
  Value grid;
};
GridSampleGrads gridSampleGrad(
    GraphBuilder& b, Value x, Value grid, Value dy, const GridSampleOptions& options = {});
/// `regions` [count, 4] holds (x1, y1, x2, y2) in the images of batchIndices. Only x gets a
/// gradient.
Value roiAlign(
    GraphBuilder& b, Value x, Value regions, Value batchIndices, const RoiAlignOptions& options);
/// The gradient of x; x itself only tells where the maxima are.
Value roiAlignGrad(GraphBuilder& b,
                   Value x,
                   Value regions,
                   Value batchIndices,
                   Value dy,
                   const RoiAlignOptions& options);

}  // namespace sluice::ops
