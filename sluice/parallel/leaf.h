// Leaves of a graph: they run nowhere, so they have no place of their own; their readers have one.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::parallel {

inline bool isLeaf(const ir::Op& op) {
  return op.is(ir::kInput) || op.is(ir::kConstant) || op.is(ir::kVariable);
}

}  // namespace sluice::parallel
