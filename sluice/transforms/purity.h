// What passes may do with an op.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Whether an op may be removed when nobody reads it.
inline bool mayDrop(const ir::Op& op) {
  return !op.def->traits.effect && !op.def->traits.keep && !op.is(ir::kInput);
}

/// Whether, besides, it may be computed once for several readers, or while compiling.
inline bool isPure(const ir::Op& op) {
  return mayDrop(op) && !op.def->traits.once;
}

}  // namespace sluice::transforms
