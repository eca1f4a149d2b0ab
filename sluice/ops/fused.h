// Which ops may be in the body of a `fused` op. The fusion pass asks before it groups ops, and the
// op itself checks again.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::ops {

extern const ir::OpDef kFused;

/// Whether element-wise ops may be appended to the result of this op: true for matmul and the
/// convolutions, which do many operations per byte.
bool isFusionAnchor(const ir::OpDef& def);

/// Whether this is an element-wise op with one result and no effect, so that it may be fused.
bool isFusible(const ir::OpDef& def);

/// Whether every result element depends only on the operand elements at its position: true for
/// element-wise ops and for fused ops without an anchor.
bool isElementwise(const ir::Op& op);

/// The anchor in the body of a fused op; nullptr if the body is purely element-wise.
const ir::Op* anchorOf(const ir::Graph& body);

/// Whether the operands of the anchor are inputs of the body that only the anchor reads, and only
/// once, so that a device may request them in any layout.
bool ownsItsOperands(const ir::Graph& body, const ir::Op& anchor);

}  // namespace sluice::ops
