// The op table: one record per op, from op_list.inc plus the four ops of ir. The records themselves
// are declared with the functions of their family, so that a new op changes no common header.
#pragma once

#include "sluice/ir/op_def.h"

namespace sluice::ops {

/// Every op, by name.
const ir::OpSet& opSet();

}  // namespace sluice::ops
