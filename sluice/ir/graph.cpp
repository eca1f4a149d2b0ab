#include "sluice/ir/graph.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::ir {

std::string_view name(Pass pass) {
  static constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "update"};
  return kNames[static_cast<std::size_t>(pass)];
}

std::optional<std::size_t> Users::numberOf(Value value) const {
  const std::size_t op = value.op.index();
  if (!value.valid() || op + 1 >= values_.size() || values_[op] + value.out >= values_[op + 1]) {
    return {};
  }
  return values_[op] + value.out;
}

std::span<const Use> Users::of(Value value) const {
  const std::optional<std::size_t> number = numberOf(value);
  return number
             ? std::span(uses_).subspan(begins_[*number], begins_[*number + 1] - begins_[*number])
             : std::span<const Use>();
}

bool Users::isOutput(Value value) const {
  const std::optional<std::size_t> number = numberOf(value);
  return number && outputs_[*number];
}

Graph::Graph(std::string name) : name_(std::move(name)) {}
Graph::Graph(const Graph& other) = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(const Graph& other) = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;
Graph::~Graph() = default;

Graph::Slot::Slot(Op op) : op_(std::make_unique<Op>(std::move(op))) {}
Graph::Slot::Slot(const Slot& other)
    : op_(other.op_ == nullptr ? nullptr : std::make_unique<Op>(*other.op_)) {}
Graph::Slot::Slot(Slot&& other) noexcept = default;
Graph::Slot& Graph::Slot::operator=(const Slot& other) {
  return *this = Slot(other);
}
Graph::Slot& Graph::Slot::operator=(Slot&& other) noexcept = default;
Graph::Slot::~Slot() = default;

bool Graph::contains(OpId id) const {
  return id.valid() && id.index() < ops_.size() && ops_[id.index()].get() != nullptr;
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
  ++changes_.count;
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

Op& Graph::change(OpId id) {
  SLUICE_CHECK(contains(id), "no op %{}", id.value);
  ++changes_.count;
  return *ops_[id.index()];
}

void Graph::setPlacement(OpId id, Placement place) {
  change(id).place = place;
}

void Graph::setName(OpId id, std::string name) {
  change(id).name = std::move(name);
}

void Graph::setAttr(OpId id, NamedAttr attr) {
  Op& op = change(id);
  Attrs attrs = op.attrs;
  attrs.set(std::move(attr));
  op.attrs = completeAttrs(*op.def, std::move(attrs));
}

void Graph::replaceUses(const std::unordered_map<Value, Value>& replacements) {
  if (replacements.empty()) {
    return;
  }
  ++changes_.count;
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
  if (ids.empty()) {
    return;
  }
  ById<OpId, bool> gone(numIds(), false);
  for (const OpId id : ids) {
    SLUICE_CHECK(contains(id), "no op %{}", id.value);
    gone[id] = true;
  }
  for (const OpId id : order_) {
    if (gone[id]) {
      continue;
    }
    for (const Value v : ops_[id.index()]->inputs) {
      SLUICE_CHECK(!gone[v.op], "op %{} is still read by %{}", v.op.value, id.value);
    }
  }
  for (const Output& output : outputs_) {
    SLUICE_CHECK(!gone[output.value.op],
                 "op %{} still makes output '{}'",
                 output.value.op.value,
                 output.name);
  }
  ++changes_.count;
  std::erase_if(order_, [&](OpId id) { return gone[id]; });
  for (const OpId id : ids) {
    ops_[id.index()].reset();
  }
}

void Graph::reorder(std::vector<OpId> order) {
  if (order == order_) {
    return;
  }
  ById<OpId, bool> placed(numIds(), false);
  bool permutation = order.size() == order_.size();
  for (const OpId id : order) {
    permutation = permutation && contains(id) && !placed[id];
    if (permutation) {
      placed[id] = true;
    }
  }
  SLUICE_CHECK(permutation, "the new order of graph '{}' is not a permutation", name_);
  ++changes_.count;
  order_ = std::move(order);
}

void Graph::addOutput(std::string name, Value value) {
  static_cast<void>(type(value));
  if (!outputNames_.insert(name).second) {
    raise<InvalidArgument>("graph '{}' already has an output named '{}'", name_, name);
  }
  ++changes_.count;
  outputs_.push_back({std::move(name), value});
}

void Graph::setOutputs(std::vector<Output> outputs) {
  ++changes_.count;
  outputs_.clear();
  outputNames_.clear();
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
  ++changes_.count;
  variableIndex_.emplace(variable.name, variables_.size());
  variables_.push_back(std::move(variable));
}

void Graph::replaceVariable(Variable variable) {
  const auto known = variableIndex_.find(variable.name);
  SLUICE_CHECK(known != variableIndex_.end(), "there is no variable to replace");
  ++changes_.count;
  variables_[known->second] = std::move(variable);
}

std::int32_t Graph::blockIndex(std::string_view name) {
  auto found = blockIndex_.find(name);
  if (found == blockIndex_.end()) {
    ++changes_.count;
    found = blockIndex_.emplace(name, blocks_.size()).first;
    blocks_.emplace_back(name);
  }
  return static_cast<std::int32_t>(found->second);
}

Users Graph::users() const {
  Users users;
  users.values_.push_back(0);
  for (const Slot& slot : ops_) {
    const std::size_t made = slot.get() == nullptr ? 0 : slot->outputs.size();
    users.values_.push_back(users.values_.back() + made);
  }
  const std::size_t values = users.values_.back();
  const auto numberOf = [&](Value v) { return users.values_[v.op.index()] + v.out; };
  std::vector<std::size_t>& begins = users.begins_;
  begins.resize(values + 1);
  for (const OpId id : order_) {
    for (const Value v : op(id).inputs) {
      ++begins[numberOf(v) + 1];
    }
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  users.uses_.resize(begins.back());
  std::vector<std::size_t> next = begins;
  for (const OpId id : order_) {
    const Op& reader = op(id);
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      users.uses_[next[numberOf(reader.inputs[i])]++] = {id, i};
    }
  }
  users.outputs_.resize(values);
  for (const Output& output : outputs_) {
    users.outputs_[numberOf(output.value)] = true;
  }
  return users;
}

}  // namespace sluice::ir
