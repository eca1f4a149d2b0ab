#include "sluice/program/state_plan.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/program/program.h"

namespace sluice::program {

const PlacedVariable& StatePlan::add(const ir::Variable& variable, std::int32_t device) {
  if (const PlacedVariable* known = find(variable.name); known != nullptr) {
    if (known->variable.type != variable.type || known->variable.role != variable.role) {
      raise<InvalidArgument>(
          "variable '{}' is {} ({}) in this program and {} ({}) in another one "
          "of the same model",
          variable.name,
          variable.type.str(),
          ir::name(variable.role),
          known->variable.type.str(),
          ir::name(known->variable.role));
    }
    return *known;
  }
  const auto d = static_cast<std::size_t>(device);
  bytes_.resize(std::max(bytes_.size(), d + 1), 0);
  index_.emplace(variable.name, variables_.size());
  variables_.push_back({variable, device, bytes_[d]});
  bytes_[d] += (variable.type.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  return variables_.back();
}

const PlacedVariable* StatePlan::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &variables_[found->second];
}

std::size_t StatePlan::bytes(std::int32_t device) const {
  const auto d = static_cast<std::size_t>(device);
  return d < bytes_.size() ? bytes_[d] : 0;
}

}  // namespace sluice::program
