// What passes may do with an op.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Whether an op may be removed when nobody reads it, and computed once for several readers.
inline bool isPure(const ir::Op& op) {
  return !op.def->traits.effect && !op.def->traits.keep && !op.is(ir::kInput);
}

}  // namespace sluice::transforms
