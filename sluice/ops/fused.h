// What may stand in the body of a `fused` op: the fusion pass asks before it groups ops, the op
// itself checks it again.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::ops {

extern const ir::OpDef kFused;

/// An op with many operations per byte whose result element-wise ops may be appended to: matmul and
/// the convolutions.
bool isFusionAnchor(const ir::OpDef& def);

/// An element-wise op with one result and no effect, whose kernels may run inside a fused one.
bool isFusible(const ir::OpDef& def);

/// Whether every element of the result depends on the operand elements of its position only: of an
/// element-wise op, or of a fused one without an anchor.
bool isElementwise(const ir::Op& op);

/// The anchor in the body of a fused op; nullptr when it is purely element-wise.
const ir::Op* anchorOf(const ir::Graph& body);

/// Whether the operands of the anchor are inputs of the body that are read once, by it alone, so
/// that a device may ask for them in any layout.
bool ownsItsOperands(const ir::Graph& body, const ir::Op& anchor);

}  // namespace sluice::ops
