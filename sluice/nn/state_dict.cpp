#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/nn/module.h"

namespace sluice::nn {
namespace {

constexpr std::size_t kListed = 8;

/// " missing: a, b and 3 more;", or nothing.
std::string listed(std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) {
    return {};
  }
  const std::size_t shown = std::min(names.size(), kListed);
  const std::span<const std::string> first(names.data(), shown);
  std::string text = fmt::format(" {}: {}", what, fmt::join(first, ", "));
  return names.size() == shown ? text + ";"
                               : text + fmt::format(" and {} more;", names.size() - shown);
}

struct Named {
  std::string name;  // as seen from the module
  Parameter* parameter;
};

std::vector<Named> parametersOf(const Module& module) {
  const std::string path = module.path();
  const std::size_t prefix = path.empty() ? 0 : path.size() + 1;
  std::vector<Named> all;
  for (const auto& list : {module.parameters(), module.buffers()}) {
    for (Parameter* parameter : list) {
      all.push_back({parameter->fullName().substr(prefix), parameter});
    }
  }
  return all;
}

/// Takes a prefix off if all names have it.
bool takeOff(std::string_view prefix, NamedTensors& tensors) {
  const bool all = !tensors.empty() && std::ranges::all_of(tensors, [&](const auto& entry) {
    return entry.first.starts_with(prefix);
  });
  if (all) {
    NamedTensors shorter;
    for (auto& [name, tensor] : tensors) {
      shorter.emplace(name.substr(prefix.size()), std::move(tensor));
    }
    tensors = std::move(shorter);
  }
  return all;
}

}  // namespace

UnmatchedNames requireStateDict(std::span<const ir::Variable> variables,
                                const NamedTensors& state,
                                Strict strict) {
  if (state.empty() && !variables.empty()) {
    raise<InvalidArgument>("the state dictionary is empty");
  }
  UnmatchedNames unmatched;
  std::vector<std::string> different;
  std::size_t found = 0;
  for (const ir::Variable& variable : variables) {
    const auto given = state.find(variable.name);
    if (given == state.end()) {
      unmatched.missing.push_back(variable.name);
      continue;
    }
    ++found;
    if (given->second.type() != variable.type) {
      different.push_back(fmt::format(
          "{} ({} instead of {})", variable.name, given->second.type().str(), variable.type.str()));
    }
  }
  for (const auto& [name, tensor] : state) {
    if (found < state.size() &&
        std::ranges::find(variables, name, &ir::Variable::name) == variables.end()) {
      unmatched.unexpected.push_back(name);
    }
  }
  const bool names = !unmatched.missing.empty() || !unmatched.unexpected.empty();
  if (!different.empty() || (strict == Strict::Yes && names)) {
    raise<InvalidArgument>("the state dictionary does not fit:{}{}{} nothing was loaded",
                           listed("of another type", different),
                           listed("missing", unmatched.missing),
                           listed("unexpected", unmatched.unexpected));
  }
  return unmatched;
}

NamedTensors stateDict(const Module& module) {
  NamedTensors state;
  for (const Named& named : parametersOf(module)) {
    state.emplace(named.name, named.parameter->value());
  }
  return state;
}

UnmatchedNames loadStateDict(Module& module, const NamedTensors& state, Strict strict) {
  const std::vector<Named> parameters = parametersOf(module);
  std::vector<ir::Variable> variables;
  variables.reserve(parameters.size());
  for (const Named& named : parameters) {
    variables.push_back({.name = named.name, .type = named.parameter->type(), .initializer = {}});
  }
  UnmatchedNames unmatched = requireStateDict(variables, state, strict);
  for (const Named& named : parameters) {
    if (const auto given = state.find(named.name); given != state.end()) {
      named.parameter->setValue(given->second);
    }
  }
  return unmatched;
}

NamedTensors importTorch(std::span<const ir::Variable> variables, const NamedTensors& torch) {
  NamedTensors state = torch;
  const auto known = [&](std::string_view name) {
    return std::ranges::find(variables, name, &ir::Variable::name);
  };
  const auto anyKnown = [&] {
    return std::ranges::any_of(
        state, [&](const auto& entry) { return known(entry.first) != variables.end(); });
  };
  bool shortened = true;
  while (shortened && !anyKnown()) {
    shortened = takeOff("module.", state) || takeOff("_orig_mod.", state);
  }
  for (auto& [name, tensor] : state) {
    const auto variable = known(name);
    if (variable != variables.end() && variable->type.dtype != tensor.dtype() &&
        isFloat(variable->type.dtype) && isFloat(tensor.dtype())) {
      tensor = cast(tensor, variable->type.dtype);
    }
  }
  return state;
}

NamedTensors exportTorch(NamedTensors state) {
  constexpr std::array<std::pair<DType, DType>, 3> kWider = {
      {{DType::U16, DType::I32}, {DType::U32, DType::I64}, {DType::U64, DType::I64}}};
  for (auto& [name, tensor] : state) {
    for (const auto& [from, to] : kWider) {
      if (tensor.dtype() == from) {
        tensor = cast(tensor, to);
        break;
      }
    }
  }
  return state;
}

}  // namespace sluice::nn
