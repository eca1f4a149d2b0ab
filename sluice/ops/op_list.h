// The op table: one record per op. It holds the ops of op_list.inc, the four ops of ir, and the ops
// that libraries add at run time. The records of Sluice's ops are declared beside the functions of
// their family, so that a new op changes no common header.
#pragma once

#include <span>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

/// Every op, by name. The reference stays valid, and its set never changes: ops that are added
/// later are in the sets that later calls return. Any thread may call this.
const ir::OpSet& opSet();

/// Adds all of the ops or none; they must live as long as the process. Throws InvalidArgument if a
/// name is taken.
void addOps(std::span<const ir::OpDef* const> defs);

}  // namespace sluice::ops
