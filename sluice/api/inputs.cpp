#include "sluice/api/inputs.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "sluice/base/error.h"

namespace sluice {
namespace {

std::vector<std::string> namesOf(std::span<const Input> declared) {
  std::vector<std::string> names;
  for (const Input& input : declared) {
    names.push_back(input.name);
  }
  return names;
}

}  // namespace

Inputs& Inputs::add(HostStructure value) {
  if (!named_.empty()) {
    raise<InvalidArgument>(
        "an input by position comes behind '{}', which has a name: positions "
        "come first",
        named_.back().name);
  }
  positional_.push_back(std::move(value));
  return *this;
}

Inputs& Inputs::add(Keyword input) {
  named_.push_back(std::move(input));
  return *this;
}

HostStructure bindInputs(std::span<const Input> declared, const Inputs& given) {
  if (given.positional().size() > declared.size()) {
    raise<InvalidArgument>("the model takes {} inputs, got {} by position",
                           declared.size(),
                           given.positional().size());
  }
  std::vector<HostStructure> bound(given.positional().begin(), given.positional().end());
  std::vector<bool> taken(bound.size(), true);
  bound.resize(declared.size());
  taken.resize(declared.size());
  for (const Keyword& keyword : given.named()) {
    const auto found = std::ranges::find(declared, keyword.name, &Input::name);
    if (found == declared.end()) {
      raise<InvalidArgument>("the model has no input '{}'; it has [{}]",
                             keyword.name,
                             fmt::join(namesOf(declared), ", "));
    }
    const auto i = static_cast<std::size_t>(found - declared.begin());
    if (taken[i]) {
      raise<InvalidArgument>("input '{}' is given twice", keyword.name);
    }
    taken[i] = true;
    bound[i] = keyword.value;
  }
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (bound[i].isAbsent() && !declared[i].byDefault) {
      raise<InvalidArgument>("input '{}' of the model is missing", declared[i].name);
    }
  }
  return HostStructure::list(std::move(bound));
}

void requireDeclaration(std::span<const Input> declared, std::size_t taken) {
  std::vector<std::string> names = namesOf(declared);
  if (names.size() != taken) {
    raise<InvalidArgument>(
        "inputs() declares [{}], and forward takes {} inputs", fmt::join(names, ", "), taken);
  }
  std::ranges::sort(names);
  if (std::ranges::adjacent_find(names) != names.end() || std::ranges::count(names, "") > 0) {
    raise<InvalidArgument>("inputs() declares [{}]: every input needs a name of its own",
                           fmt::join(names, ", "));
  }
}

}  // namespace sluice
