// What passes may do to an op.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Whether an op may be removed if nothing reads it.
inline bool mayDrop(const ir::Op& op) {
  return !op.def->traits.effect && !op.def->traits.keep && !op.is(ir::kInput);
}

/// Whether an op may also be computed once for several readers, or at compile time.
inline bool isPure(const ir::Op& op) {
  return mayDrop(op) && !op.def->traits.once;
}

}  // namespace sluice::transforms
