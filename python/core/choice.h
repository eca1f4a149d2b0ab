// One of several names, as an argument.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::python {

/// Throws InvalidArgument, which lists the names.
template <class E>
E choice(const std::string& what, const std::string& given, const std::map<std::string, E>& all) {
  const auto found = all.find(given);
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : all) {
      names.push_back(name);
    }
    raise<InvalidArgument>("{}: expected one of {}, got '{}'", what, fmt::join(names, ", "), given);
  }
  return found->second;
}

}  // namespace sluice::python
