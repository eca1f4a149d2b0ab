// The op table: one record per op, from op_list.inc plus the four ops of ir.
#pragma once

#include "sluice/ir/op_def.h"

namespace sluice::ops {

#define SLUICE_OP(Name) extern const ir::OpDef k##Name;
#include "sluice/ops/op_list.inc"  // IWYU pragma: keep
#undef SLUICE_OP

/// Every op, by name.
const ir::OpSet& opSet();

}  // namespace sluice::ops
