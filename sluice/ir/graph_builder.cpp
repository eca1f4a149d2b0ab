#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"

namespace sluice::ir {

OpId GraphBuilder::make(const OpDef& def, std::vector<Value> inputs, Attrs attrs) {
  return graph_.append({.def = def,
                        .inputs = std::move(inputs),
                        .attrs = std::move(attrs),
                        .name = scope + std::string(def.name),
                        .place = place});
}

Value GraphBuilder::add(const OpDef& def, std::vector<Value> inputs, Attrs attrs) {
  return {make(def, std::move(inputs), std::move(attrs)), 0};
}

std::vector<Value> GraphBuilder::addMany(const OpDef& def, std::vector<Value> inputs, Attrs attrs) {
  const Op& op = graph_.op(make(def, std::move(inputs), std::move(attrs)));
  std::vector<Value> values;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    values.push_back(op.out(i));
  }
  return values;
}

Value GraphBuilder::input(std::string name, TensorType type) {
  for (const OpId id : graph_.inputs()) {
    if (graph_.op(id).name == name) {
      raise<InvalidArgument>("graph '{}' already has an input named '{}'", graph_.name(), name);
    }
  }
  return {graph_.append(
              {.def = kInput, .name = std::move(name), .place = place, .types = {std::move(type)}}),
          0};
}

Value GraphBuilder::variable(std::string_view name) {
  const Variable* found = graph_.findVariable(name);
  if (found == nullptr) {
    raise<InvalidArgument>("graph '{}' has no variable '{}'", graph_.name(), name);
  }
  return {graph_.append({.def = kVariable,
                         .attrs = {{"var", name}},
                         .name = std::string(name),
                         .place = place,
                         .types = {found->type}}),
          0};
}

Value GraphBuilder::constant(HostTensor value) {
  return add(kConstant, {}, {{"value", std::move(value)}});
}

Value GraphBuilder::scalar(DType dtype, double value) {
  return constant(HostTensor::full({dtype, Shape{}}, value));
}

void GraphBuilder::assign(std::string_view variable, Value value, std::string_view mode) {
  make(kAssign, {value}, {{"var", variable}, {"mode", mode}});
}

std::int64_t GraphBuilder::nextRandomOrdinal() {
  std::int64_t next = 0;
  for (const OpId id : graph_.order()) {
    const Op& op = graph_.op(id);
    if (op.def->traits.random) {
      next = std::max(next, op.attrs.integer("ordinal") + 1);
    }
  }
  return next;
}

}  // namespace sluice::ir
