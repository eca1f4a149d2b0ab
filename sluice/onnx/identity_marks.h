// Ops that give back their operand and tell Sluice something about it, in files: an Identity, whose
// doc string is a mark. Other readers pass over it. Internal to this module.
#pragma once

#include <string_view>

#include "sluice/ir/graph.h"

namespace sluice::onnx {

struct MarkedOp {
  std::string_view mark;
  const ir::OpDef* def = nullptr;
  ir::Attrs attrs = {};
};

/// nullptr if no op has this mark.
const MarkedOp* findMark(std::string_view mark);
/// The mark of an op; empty if it has none.
std::string_view markOf(const ir::Op& op);

}  // namespace sluice::onnx
