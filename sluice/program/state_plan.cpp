#include "sluice/program/state_plan.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/program/program.h"

namespace sluice::program {
namespace {

/// Remote memory first, then the devices.
std::size_t arenaOf(std::int32_t device) {
  return static_cast<std::size_t>(device - kRemote);
}

std::size_t roundedUp(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

std::vector<StateSlice> PlacedVariable::slices() const {
  std::vector<StateSlice> all = {{device, offset}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

StatePlan::StatePlan(std::vector<PlacedVariable> variables, std::vector<std::size_t> bytes)
    : variables_(std::move(variables)), bytes_(std::move(bytes)) {
  struct Taken {
    std::size_t arena;
    std::size_t begin;
    std::size_t end;
    const std::string* name;
  };
  std::vector<Taken> taken;
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const ir::Variable& variable = variables_[v].variable;
    if (!index_.emplace(variable.name, v).second) {
      raise<InvalidArgument>("variable '{}' is placed twice", variable.name);
    }
    for (const StateSlice& slice : variables_[v].slices()) {
      const std::size_t size = variable.type.bytes();
      const std::size_t arena = slice.device < kRemote ? bytes_.size() : arenaOf(slice.device);
      if (arena >= bytes_.size() || slice.offset % kAlignment != 0 || size > bytes_[arena] ||
          slice.offset > bytes_[arena] - size) {
        raise<InvalidArgument>("variable '{}' of {} bytes is at offset {} of device {}",
                               variable.name,
                               size,
                               slice.offset,
                               slice.device);
      }
      if (size > 0) {
        taken.push_back({arena, slice.offset, slice.offset + size, &variable.name});
      }
    }
  }
  std::ranges::sort(taken, {}, [](const Taken& t) { return std::pair(t.arena, t.begin); });
  for (std::size_t i = 1; i < taken.size(); ++i) {
    if (taken[i - 1].arena == taken[i].arena && taken[i].begin < taken[i - 1].end) {
      raise<InvalidArgument>(
          "variables '{}' and '{}' share bytes", *taken[i - 1].name, *taken[i].name);
    }
  }
}

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
  index_.emplace(variable.name, variables_.size());
  const StateSlice home = allocate(device, variable.type.bytes());
  variables_.push_back({variable, home.device, home.offset});
  return variables_.back();
}

StateSlice StatePlan::allocate(std::int32_t device, std::size_t bytes) {
  const std::size_t d = arenaOf(device);
  bytes_.resize(std::max(bytes_.size(), d + 1), 0);
  std::size_t alignment = kAlignment;
  if (device != kRemote && !alignments_.empty()) {
    alignment = alignments_[std::min(static_cast<std::size_t>(device), alignments_.size() - 1)];
  }
  const std::size_t offset = roundedUp(bytes_[d], alignment);
  bytes_[d] = offset + roundedUp(bytes, alignment);
  return {device, offset};
}

StateSlice StatePlan::sliceOn(std::string_view name, std::int32_t device) {
  PlacedVariable& placed = variables_[index_.at(std::string(name))];
  for (const StateSlice& slice : placed.slices()) {
    if (slice.device == device) {
      return slice;
    }
  }
  placed.more.push_back(allocate(device, placed.variable.type.bytes()));
  return placed.more.back();
}

const PlacedVariable* StatePlan::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &variables_[found->second];
}

std::size_t StatePlan::bytes(std::int32_t device) const {
  const std::size_t d = arenaOf(device);
  return d < bytes_.size() ? bytes_[d] : 0;
}

}  // namespace sluice::program
