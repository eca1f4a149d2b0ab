// Builder functions of ops that only the vendor's domain has: printing, stopping, decoding,
// splines. The importer and the Builder's op sets use them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/ir/graph_builder.h"
#include "sluice/ops/tensor_text.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kAbort, kCtcBeamSearchDecoder, kPrintTensor, kShapedDropout, kSplineBasis,
    kSplineWeighting;

struct PrintOptions {
  std::string title = {};
  bool printGradient = true;  ///< the gradient too, under the title with "_gradient"
  TextOptions text = {};
};
/// x itself; every run logs it. Dropped when nobody reads the result.
Value printTensor(GraphBuilder& b, Value x, const PrintOptions& options = {});

/// Running it is a DeviceError: always, or if any element of the condition is not 0.
void abort(GraphBuilder& b);
void abort(GraphBuilder& b, Value condition);

struct CtcDecoderOptions {
  std::int64_t blank = 0;
  std::int64_t beamWidth = 100;
  std::int64_t topPaths = 1;
};
/// The most likely label sequences per batch item, the best first.
struct CtcDecoded {
  Value probabilities;  ///< [batch, paths]
  Value lengths;        ///< [batch, paths], i64
  Value paths;          ///< [batch, paths, steps], i64; the blank behind the last label
};
/// Of log-probabilities [steps, batch, classes] and lengths [batch] in steps, i32 or i64.
CtcDecoded ctcBeamSearchDecoder(GraphBuilder& b,
                                Value logProbabilities,
                                Value lengths,
                                const CtcDecoderOptions& options = {});

/// Dropout by a mask of this shape, which is broadcast to x.
Value shapedDropout(GraphBuilder& b, Value x, const Shape& shape, double ratio);

struct SplineBasisValues {
  Value basis;    ///< [edges, products of basis functions]
  Value indices;  ///< of the kernel's weights, i64, the same shape
};
/// Of pseudo-coordinates [edges, axes] from 0 to 1, the kernel's extent and whether the spline is
/// open per axis; degree 1 to 3.
SplineBasisValues splineBasis(
    GraphBuilder& b, Value pseudo, Value kernelSize, Value isOpen, std::int64_t degree);
/// x [edges, in] times the weights [kernel, in, out] that the basis picks and mixes per edge.
Value splineWeighting(GraphBuilder& b, Value x, Value weight, const SplineBasisValues& basis);

}  // namespace sluice::ops
