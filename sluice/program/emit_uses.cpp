#include "sluice/program/emit_uses.h"

#include <algorithm>

namespace sluice::program {

using ir::Op;
using ir::Value;

EmitUses::EmitUses(const ir::Graph& graph, const std::vector<ir::OpId>& order)
    : graph_(graph), order_(order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Op& op = graph.op(order[i]);
    if (op.is(ir::kAssign)) {
      assigns_[op.attrs.text("var")].push_back(i);
    }
    for (const Value v : op.inputs) {
      lastUse_[v] = i;
      if (graph.op(v.op).place.device != op.place.device) {
        readElsewhere_.insert(v);
      }
    }
  }
  for (const ir::Output& output : graph.outputs()) {
    lastUse_[output.value] = order.size();
  }
  // A view lives in the memory of its operand: its uses count for the operand.
  for (std::size_t i = order.size(); i-- > 0;) {
    const Op& op = graph.op(order[i]);
    if (!op.def->traits.view) {
      continue;
    }
    if (const auto used = lastUse_.find(op.out()); used != lastUse_.end()) {
      const std::size_t last = used->second;
      std::size_t& ofOperand = lastUse_[op.inputs[0]];
      ofOperand = std::max(ofOperand, last);
    }
    if (readElsewhere_.contains(op.out())) {
      readElsewhere_.insert(op.inputs[0]);
    }
  }
}

const std::vector<std::size_t>& EmitUses::assignsOf(std::string_view variable) const {
  static const std::vector<std::size_t> kNone;
  const auto found = assigns_.find(variable);
  return found != assigns_.end() ? found->second : kNone;
}

bool EmitUses::isOverwritten(const Op& read, std::size_t position) const {
  const auto used = lastUse_.find(read.out());
  const std::size_t last = used != lastUse_.end() ? used->second : position;
  return std::ranges::any_of(assignsOf(read.attrs.text("var")), [&](std::size_t assign) {
    return assign > position && assign < last;
  });
}

bool EmitUses::isAssignedInLoop(std::string_view variable) const {
  return std::ranges::any_of(assignsOf(variable), [&](std::size_t position) {
    return graph_.op(order_[position]).place.pass != ir::Pass::Update;
  });
}

bool EmitUses::beginsAnew(const ir::Variable& variable) const {
  return variable.role == ir::VariableRole::Accumulator &&
         std::ranges::all_of(assignsOf(variable.name), [&](std::size_t position) {
           const std::string& mode = graph_.op(order_[position]).attrs.text("mode");
           return mode == "sum" || mode == "mean";
         });
}

}  // namespace sluice::program
