#include "sluice/ops/op_list.h"

#include <algorithm>
#include <vector>

namespace sluice::ops {

#define SLUICE_OP(Name) extern const ir::OpDef k##Name;
#include "sluice/ops/op_list.inc"  // IWYU pragma: keep
#undef SLUICE_OP

const ir::OpSet& opSet() {
  static const std::vector<const ir::OpDef*> kDefs = [] {
    std::vector<const ir::OpDef*> defs = {
        &ir::kInput,
        &ir::kVariable,
        &ir::kConstant,
        &ir::kAssign,
#define SLUICE_OP(Name) &k##Name,
#include "sluice/ops/op_list.inc"
#undef SLUICE_OP
    };
    std::ranges::sort(defs, {}, &ir::OpDef::name);
    return defs;
  }();
  static const ir::OpSet kSet(kDefs);
  return kSet;
}

}  // namespace sluice::ops
