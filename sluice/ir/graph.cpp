#include "sluice/ir/graph.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::ir {

std::string_view name(Pass pass) {
  static constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "update"};
  return kNames[static_cast<std::size_t>(pass)];
}

std::span<const Use> Users::of(Value value) const {
  const auto found = uses_.find(value);
  return found == uses_.end() ? std::span<const Use>() : std::span<const Use>(found->second);
}

bool Users::isOutput(Value value) const {
  return outputs_.contains(value);
}

Graph::Graph(std::string name) : name_(std::move(name)) {}
Graph::Graph(const Graph& other) = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(const Graph& other) = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;
Graph::~Graph() = default;

bool Graph::contains(OpId id) const {
  return id.valid() && id.index() < ops_.size() && ops_[id.index()].has_value();
}

const Op& Graph::op(OpId id) const {
  SLUICE_CHECK(contains(id), "graph '{}' has no op %{}", name_, id.value);
  return *ops_[id.index()];
}

const TensorType& Graph::type(Value value) const {
  const Op& producer = op(value.op);
  SLUICE_CHECK(value.out < producer.outputs.size(),
               "op %{} ({}) has no output {}",
               value.op.value,
               producer.def->name,
               value.out);
  return producer.outputs[value.out];
}

std::vector<TensorType> Graph::inputTypes(const Op& op) const {
  std::vector<TensorType> types;
  types.reserve(op.inputs.size());
  for (const Value v : op.inputs) {
    types.push_back(type(v));
  }
  return types;
}

Op Graph::makeOp(NewOp wanted) const {
  const OpDef& def = wanted.def;
  const auto count = static_cast<int>(wanted.inputs.size());
  if (count < def.minInputs || (def.maxInputs != kVariadic && count > def.maxInputs)) {
    const std::string expected =
        def.maxInputs == kVariadic       ? fmt::format("at least {}", def.minInputs)
        : def.minInputs == def.maxInputs ? fmt::format("{}", def.minInputs)
                                         : fmt::format("{} to {}", def.minInputs, def.maxInputs);
    raise<InvalidArgument>("{}: takes {} inputs, got {}", def.name, expected, count);
  }
  Op op;
  op.def = &def;
  op.inputs = std::move(wanted.inputs);
  op.name = std::move(wanted.name);
  op.place = wanted.place;
  std::vector<TensorType> types;
  for (const Value v : op.inputs) {
    if (!contains(v.op) || v.out >= ops_[v.op.index()]->outputs.size()) {
      raise<InvalidArgument>("{}: an input is not a value of graph '{}'", def.name, name_);
    }
    types.push_back(type(v));
  }
  op.attrs = completeAttrs(def, std::move(wanted.attrs));
  if (def.infer == nullptr) {
    op.outputs = std::move(wanted.types);
  } else {
    op.outputs = def.infer({def, op.attrs, types, {}});
  }
  SLUICE_CHECK(def.outputs == kVariadic || static_cast<int>(op.outputs.size()) == def.outputs,
               "{} was given {} output types",
               def.name,
               op.outputs.size());
  if (const Attr* var = op.attrs.find("var"); var != nullptr) {
    const auto& variableName = std::get<std::string>(*var);
    const Variable* variable = findVariable(variableName);
    if (variable == nullptr) {
      raise<InvalidArgument>("{}: graph '{}' has no variable '{}'", def.name, name_, variableName);
    }
    const TensorType& found = op.is(kVariable) ? op.outputs.front() : types.front();
    if (found != variable->type) {
      raise<InvalidArgument>("{}: variable '{}' is {}, got {}",
                             def.name,
                             variableName,
                             variable->type.str(),
                             found.str());
    }
  }
  return op;
}

OpId Graph::append(NewOp wanted) {
  Op op = makeOp(std::move(wanted));
  op.id = OpId(ops_.size());
  order_.push_back(op.id);
  ops_.emplace_back(std::move(op));
  return order_.back();
}

OpId Graph::insertBefore(OpId position, NewOp wanted) {
  const auto at = std::ranges::find(order_, position);
  SLUICE_CHECK(at != order_.end(), "no op %{} to insert before", position.value);
  const auto offset = at - order_.begin();
  const OpId id = append(std::move(wanted));
  order_.pop_back();
  order_.insert(order_.begin() + offset, id);
  return id;
}

void Graph::setPlacement(OpId id, Placement place) {
  SLUICE_CHECK(contains(id), "no op %{}", id.value);
  ops_[id.index()]->place = place;
}

void Graph::setName(OpId id, std::string name) {
  SLUICE_CHECK(contains(id), "no op %{}", id.value);
  ops_[id.index()]->name = std::move(name);
}

void Graph::setAttr(OpId id, NamedAttr attr) {
  SLUICE_CHECK(contains(id), "no op %{}", id.value);
  Op& op = *ops_[id.index()];
  Attrs attrs = op.attrs;
  attrs.set(std::move(attr));
  op.attrs = completeAttrs(*op.def, std::move(attrs));
}

void Graph::replaceUses(const std::unordered_map<Value, Value>& replacements) {
  for (const auto& [from, to] : replacements) {
    SLUICE_CHECK(type(from) == type(to),
                 "%{} of type {} cannot stand for %{} of type {}",
                 to.op.value,
                 type(to).str(),
                 from.op.value,
                 type(from).str());
  }
  const auto replaced = [&](Value v) {
    // Replacements may chain: a -> b, b -> c.
    for (auto found = replacements.find(v); found != replacements.end();
         found = replacements.find(v)) {
      v = found->second;
    }
    return v;
  };
  for (const OpId id : order_) {
    for (Value& v : ops_[id.index()]->inputs) {
      v = replaced(v);
    }
  }
  for (Output& output : outputs_) {
    output.value = replaced(output.value);
  }
}

void Graph::remove(std::span<const OpId> ids) {
  const std::unordered_set<OpId> gone(ids.begin(), ids.end());
  for (const OpId id : order_) {
    if (gone.contains(id)) {
      continue;
    }
    for (const Value v : ops_[id.index()]->inputs) {
      SLUICE_CHECK(!gone.contains(v.op), "op %{} is still read by %{}", v.op.value, id.value);
    }
  }
  for (const Output& output : outputs_) {
    SLUICE_CHECK(!gone.contains(output.value.op),
                 "op %{} still makes output '{}'",
                 output.value.op.value,
                 output.name);
  }
  std::erase_if(order_, [&](OpId id) { return gone.contains(id); });
  for (const OpId id : ids) {
    ops_[id.index()].reset();
  }
}

void Graph::reorder(std::vector<OpId> order) {
  std::vector<OpId> before = order_;
  std::vector<OpId> after = order;
  std::ranges::sort(before);
  std::ranges::sort(after);
  SLUICE_CHECK(before == after, "the new order of graph '{}' is not a permutation", name_);
  order_ = std::move(order);
}

void Graph::addOutput(std::string name, Value value) {
  static_cast<void>(type(value));
  if (std::ranges::find(outputs_, name, &Output::name) != outputs_.end()) {
    raise<InvalidArgument>("graph '{}' already has an output named '{}'", name_, name);
  }
  outputs_.push_back({std::move(name), value});
}

void Graph::setOutputs(std::vector<Output> outputs) {
  outputs_.clear();
  for (Output& output : outputs) {
    addOutput(std::move(output.name), output.value);
  }
}

std::vector<OpId> Graph::inputs() const {
  std::vector<OpId> ids;
  for (const OpId id : order_) {
    if (op(id).is(kInput)) {
      ids.push_back(id);
    }
  }
  return ids;
}

const Variable* Graph::findVariable(std::string_view name) const {
  const auto found = variableIndex_.find(name);
  return found == variableIndex_.end() ? nullptr : &variables_[found->second];
}

void Graph::addVariable(Variable variable) {
  if (const Variable* known = findVariable(variable.name); known != nullptr) {
    if (*known == variable) {
      return;
    }
    raise<InvalidArgument>("variable '{}' of type {} already exists as a different one of type {}",
                           variable.name,
                           variable.type.str(),
                           known->type.str());
  }
  variableIndex_.emplace(variable.name, variables_.size());
  variables_.push_back(std::move(variable));
}

void Graph::replaceVariable(Variable variable) {
  const auto known = variableIndex_.find(variable.name);
  SLUICE_CHECK(known != variableIndex_.end(), "there is no variable to replace");
  variables_[known->second] = std::move(variable);
}

std::int32_t Graph::blockIndex(std::string_view name) {
  const auto found = std::ranges::find(blocks_, name);
  const auto index = static_cast<std::int32_t>(found - blocks_.begin());
  if (found == blocks_.end()) {
    blocks_.emplace_back(name);
  }
  return index;
}

Users Graph::users() const {
  Users users;
  for (const OpId id : order_) {
    const Op& reader = op(id);
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      users.uses_[reader.inputs[i]].push_back({id, i});
    }
  }
  for (const Output& output : outputs_) {
    users.outputs_[output.value] = true;
  }
  return users;
}

}  // namespace sluice::ir
