// The op table: one record per op, from op_list.inc plus the four ops of ir, and the ops that
// libraries add at run time. The records of ours are declared with the functions of their family,
// so that a new op changes no common header.
#pragma once

#include <span>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

/// Every op, by name. The reference stays valid and the set behind it never changes: ops that are
/// added later are in the set that a later call returns. Any thread may call it.
const ir::OpSet& opSet();

/// Adds ops, all or none; they must live as long as the process. Throws InvalidArgument for a name
/// that is taken.
void addOps(std::span<const ir::OpDef* const> defs);

}  // namespace sluice::ops
