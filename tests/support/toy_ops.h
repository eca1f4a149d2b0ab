// A handful of ops for the tests of ir, which knows none itself: attributes of every kind, several
// results, randomness, nesting.
#pragma once

#include <cstdint>

#include "sluice/ir/graph.h"

namespace sluice::ir::toy {

extern const OpDef kSum;      ///< (x, y) of one type -> the same type; element-wise
extern const OpDef kSplit;    ///< (x[n]) {sizes} -> one vector per size
extern const OpDef kAttrs;    ///< (any...) {one attribute of every kind with a default} -> f32[]
extern const OpDef kNested;   ///< (any...) {body} -> the types of the body's outputs
extern const OpDef kNoise;    ///< () {shape, ordinal} -> f32[shape]; random
extern const OpDef kPickOne;  ///< (x) or (x, y) {shape} -> f32[shape]

/// The ops above and those of ir.
const OpSet& ops();

/// Makes a valid graph of about `size` ops that depends only on the arguments.
Graph randomGraph(std::uint64_t seed, int size, int depth = 2);

}  // namespace sluice::ir::toy
