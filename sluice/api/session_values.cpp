// The values of a session's variables as the host reads and writes them: whole, where replicas keep
// parts, and kept for later, where no program has the variable yet.
#include <cstring>

#include "sluice/api/compile_plan.h"
#include "sluice/api/processes.h"
#include "sluice/api/session.h"
#include "sluice/base/error.h"
#include "sluice/runtime/reduce.h"

namespace sluice {

bool Session::contains(std::string_view variable) {
  const runtime::Turn::Hold turn(turn_);
  return state().contains(variable) || presets_.contains(variable) || torn_.contains(variable);
}

void Session::set(const std::string& variable, const HostTensor& value) {
  const runtime::Turn::Hold turn(turn_);
  ++writes_;
  std::erase_if(replicaPresets_,
                [&](const auto& preset) { return preset.first.second == variable; });
  if (state().contains(variable)) {
    write(variable, value);
  } else {
    presets_.insert_or_assign(variable, value.clone());
    torn_.erase(variable);
  }
}

void Session::set(const std::string& variable, const HostTensor& value, std::size_t replica) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  ++writes_;
  if (replica < numReplicas() && state().contains(variable)) {
    replicas_[replica].state->write(variable, value);
  } else {
    replicaPresets_.insert_or_assign({replica, variable}, value.clone());
  }
}

/// Those of variables and replicas that are there now.
void Session::writePresets() {
  for (auto it = presets_.begin(); it != presets_.end();) {
    const auto next = std::next(it);
    if (state().contains(it->first)) {
      const auto preset = presets_.extract(it);
      write(preset.key(), preset.mapped());
    }
    it = next;
  }
  for (auto it = replicaPresets_.begin(); it != replicaPresets_.end();) {
    const auto& [replica, variable] = it->first;
    if (replica < numReplicas() && state().contains(variable)) {
      replicas_[replica].state->write(variable, it->second);
      it = replicaPresets_.erase(it);
    } else {
      ++it;
    }
  }
}

HostTensor Session::read(std::string_view variable) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  requireWhole(variable);
  if (const auto preset = presets_.find(variable); preset != presets_.end()) {
    return preset->second.clone();
  }
  const program::PlacedVariable* placed = state().plan().find(variable);
  if (placed != nullptr && processes_ != nullptr) {
    return readShared(*placed);
  }
  if (placed == nullptr || !placed->variable.split) {
    return state().read(variable);
  }
  HostTensor whole(placed->variable.wholeType());
  for (std::size_t r = 0; r < static_cast<std::size_t>(placed->variable.split->parts); ++r) {
    const HostTensor part = replicas_.at(r).state->read(variable);
    const auto [begin, bytes] = runtime::partOf(whole.byteCount(), part.byteCount(), r);
    std::memcpy(static_cast<std::byte*>(whole.bytes()) + begin, part.bytes(), bytes);
  }
  return whole;
}

HostTensor Session::read(std::string_view variable, std::size_t replica) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  requireWhole(variable);
  if (const auto own = replicaPresets_.find({replica, std::string(variable)});
      own != replicaPresets_.end()) {
    return own->second.clone();
  }
  const program::PlacedVariable* placed = state().plan().find(variable);
  const bool split = placed != nullptr && placed->variable.split.has_value();
  return split || presets_.contains(variable) ? read(variable)
                                              : replicas_.at(replica).state->read(variable);
}

void Session::write(std::string_view variable, const HostTensor& value) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  ++writes_;
  if (presets_.contains(variable) || (isTorn(variable) && !state().contains(variable))) {
    const std::string name(variable);
    presets_.insert_or_assign(name, value.clone());
    torn_.erase(name);
    return;
  }
  const program::PlacedVariable* placed = state().plan().find(variable);
  const bool split = placed != nullptr && placed->variable.split.has_value();
  if (split && value.type() != placed->variable.wholeType()) {
    raise<InvalidArgument>("variable '{}' is {}, the value given {}",
                           variable,
                           placed->variable.wholeType().str(),
                           value.type().str());
  }
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    if (!split) {
      replicas_[r].state->write(variable, value);
      continue;
    }
    HostTensor part = HostTensor::full(placed->variable.type, 0);
    const std::size_t first =
        processes_ == nullptr
            ? 0
            : processes_->myPlace() * (static_cast<std::size_t>(placed->variable.split->parts) /
                                       processes_->groupSize());
    const auto [begin, bytes] = runtime::partOf(value.byteCount(), part.byteCount(), first + r);
    std::memcpy(part.bytes(), static_cast<const std::byte*>(value.bytes()) + begin, bytes);
    replicas_[r].state->write(variable, part);
  }
  if (const auto known = filled_.find(variable); known != filled_.end()) {
    filled_.erase(known);
  }
  if (const auto torn = torn_.find(variable); torn != torn_.end()) {
    torn_.erase(torn);
  }
}

void Session::continueFrom(Session& other) {
  const auto begins = [&](const ir::Variable& variable) {
    return variable.role == ir::VariableRole::Accumulator ||
           variable.role == ir::VariableRole::StepScalar ||
           variable.name.starts_with(kSyntheticPrefix) || other.isTemporary(variable.name);
  };
  other.settle();
  torn_ = other.torn_;
  for (const program::PlacedVariable& placed : other.state().plan().variables()) {
    const std::string& variable = placed.variable.name;
    if (begins(placed.variable) || other.isTorn(variable)) {
      continue;
    }
    set(variable, other.read(variable));
    // Only what replicas learn from their own data differs between them.
    const bool apart = placed.variable.role == ir::VariableRole::Buffer;
    for (std::size_t r = 1; apart && r < other.numReplicas(); ++r) {
      set(variable, other.read(variable, r), r);
    }
  }
  for (const auto& [variable, value] : other.presets_) {
    set(variable, value);
  }
  for (const auto& [key, value] : other.replicaPresets_) {
    set(key.second, value, key.first);
  }
}

Session::Values Session::copyValues() {
  const runtime::Turn::Hold turn(turn_);
  settle();
  if (!torn_.empty()) {
    throwTorn();
  }
  Values values;
  for (Replica& replica : replicas_) {
    std::map<std::string, HostTensor>& each = values.emplace_back();
    for (const program::PlacedVariable& placed : state().plan().variables()) {
      each.emplace(placed.variable.name, replica.state->read(placed.variable.name));
    }
  }
  return values;
}

void Session::restoreValues(const Values& values) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  ++writes_;
  for (std::size_t r = 0; r < values.size(); ++r) {
    for (const auto& [name, value] : values[r]) {
      replicas_[r].state->write(name, value);
    }
  }
  filled_.clear();
  torn_.clear();
}

void Session::fill(const std::string& variable, double value) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  if (const auto known = filled_.find(variable); known != filled_.end() && known->second == value) {
    return;
  }
  const program::PlacedVariable* placed = state().plan().find(variable);
  if (placed == nullptr) {
    raise<InvalidArgument>("the model has no variable '{}'", variable);
  }
  ++writes_;
  const HostTensor tensor = HostTensor::full(placed->variable.type, value);
  for (Replica& replica : replicas_) {
    replica.state->write(variable, tensor);
  }
  filled_[variable] = value;
}

}  // namespace sluice
