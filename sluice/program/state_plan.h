// StatePlan: where each variable of a model lives. One plan serves every program of the model, so a
// weight has one copy; it only grows (a program may bring new variables), never moves what it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/ir/variable.h"

namespace sluice::program {

struct PlacedVariable {
  ir::Variable variable;
  std::int32_t device = 0;
  std::size_t offset = 0;
};

class StatePlan {
 public:
  /// Adds the variable, or checks that it is the one already there (same type and role); throws
  /// InvalidArgument otherwise.
  const PlacedVariable& add(const ir::Variable& variable, std::int32_t device);
  const PlacedVariable* find(std::string_view name) const;
  const std::vector<PlacedVariable>& variables() const { return variables_; }
  std::size_t bytes(std::int32_t device) const;

 private:
  std::vector<PlacedVariable> variables_;               // in order of arrival
  std::unordered_map<std::string, std::size_t> index_;  // into variables_
  std::vector<std::size_t> bytes_;                      // per device
};

}  // namespace sluice::program
