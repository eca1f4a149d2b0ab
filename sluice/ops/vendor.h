// Builder functions for ops that only the vendor's domain has: printing, stopping, decoding,
// splines. The importer and the Builder's op sets use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/ops/op_options.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

inline constexpr std::string_view kVendorDomain = "ai.graphcore";

extern const ir::OpDef kAbort, kCastThenPow2Scale, kCtcBeamSearchDecoder, kPow2ScaleThenCast,
    kPrintTensor, kShapedDropout, kSplineBasis, kSplineWeighting;

/// x; every run logs it. The op is removed if nothing reads the result.
Value printTensor(GraphBuilder& b, Value x, const PrintOptions& options = {});

/// Throws DeviceError when it runs: always, or if any element of the condition is not 0.
void abort(GraphBuilder& b);
void abort(GraphBuilder& b, Value condition);

/// The most likely label sequences of each batch item; the best comes first.
struct CtcDecoded {
  Value probabilities;  ///< [batch, paths]
  Value lengths;        ///< [batch, paths], i64
  Value paths;          ///< [batch, paths, steps], i64; blanks follow the last label
};
/// Takes log-probabilities [steps, batch, classes] and lengths [batch] in steps, i32 or i64.
CtcDecoded ctcBeamSearchDecoder(GraphBuilder& b,
                                Value logProbabilities,
                                Value lengths,
                                const CtcDecoderOptions& options = {});

/// Loads the row at `offset`, a single integer (none: 0). An offset out of range fails the run.
Value remoteLoad(GraphBuilder& b,
                 const RemoteBuffer& buffer,
                 const TensorType& type,
                 Value offset = {});
/// Stores x; later loads of the row read it.
void remoteStore(GraphBuilder& b, const RemoteBuffer& buffer, Value x, Value offset = {});
/// 0 if the graph has no such buffer yet.
std::int64_t rowsOfRemoteBuffer(const ir::Graph& graph, std::int64_t id);

/// x 2^log2Scale as 8-bit floats in a u8 tensor (float8.h). The scale is a single integer from -32
/// to 31. Numbers that are too large become the largest number, or NaN.
Value pow2ScaleThenCast(
    GraphBuilder& b, Value x, Value log2Scale, std::string_view format, bool nanOnOverflow = false);
/// Converts 8-bit floats to another float type and multiplies them by 2^log2Scale.
Value castThenPow2Scale(
    GraphBuilder& b, Value x, Value log2Scale, DType dtype, std::string_view format);

/// Dropout with a mask of this shape, which is broadcast to x.
Value shapedDropout(GraphBuilder& b, Value x, const Shape& shape, double ratio);

struct SplineBasisValues {
  Value basis;    ///< [edges, products of basis functions]
  Value indices;  ///< of the kernel's weights, i64, the same shape
};
/// Takes pseudo-coordinates [edges, axes] from 0 to 1 and, per axis, the kernel's extent and
/// whether the spline is open; the degree is 1 to 3.
SplineBasisValues splineBasis(
    GraphBuilder& b, Value pseudo, Value kernelSize, Value isOpen, std::int64_t degree);
/// x [edges, in] times the weights [kernel, in, out] that the basis selects and mixes per edge.
Value splineWeighting(GraphBuilder& b, Value x, Value weight, const SplineBasisValues& basis);

}  // namespace sluice::ops
