// The texts of the built-in targets. Private to the module.
#pragma once

#include <span>
#include <string_view>

namespace sluice::devices::sim {

struct BuiltIn {
  std::string_view name;
  std::string_view json;
};
std::span<const BuiltIn> builtIns();

}  // namespace sluice::devices::sim
