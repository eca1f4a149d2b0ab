// StatePlan: where each variable of a model lives. One plan serves every program of the model, so a
// weight has one copy; it only grows (a program may bring new variables), never moves what it has.
// A variable that the loop of one program writes on another device than its home gets a slice
// there, too; whoever runs programs brings the value along (ModelState::bringTo). A variable on
// device kRemote is in remote memory; devices have windows on it in their transient memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/ir/variable.h"

namespace sluice::program {

struct StateSlice {
  std::int32_t device = 0;
  std::size_t offset = 0;

  bool operator==(const StateSlice&) const = default;
};

struct PlacedVariable {
  ir::Variable variable;
  std::int32_t device = 0;
  std::size_t offset = 0;
  std::vector<StateSlice> more = {};  ///< on other devices

  /// The first is its home.
  std::vector<StateSlice> slices() const;
};

class StatePlan {
 public:
  /// What slices on devices are multiples of, by device; the last one holds for all others. Slices
  /// that are there already stay where they are.
  void setAlignments(std::vector<std::size_t> byDevice) { alignments_ = std::move(byDevice); }
  /// Adds the variable, or checks that it is the one already there (same type and role); throws
  /// InvalidArgument otherwise.
  const PlacedVariable& add(const ir::Variable& variable, std::int32_t device);
  /// The slice of a variable on this device; adds one if there is none.
  StateSlice sliceOn(std::string_view name, std::int32_t device);
  const PlacedVariable* find(std::string_view name) const;
  const std::vector<PlacedVariable>& variables() const { return variables_; }
  std::size_t bytes(std::int32_t device) const;

 private:
  StateSlice allocate(std::int32_t device, std::size_t bytes);

  std::vector<PlacedVariable> variables_;               // in order of arrival
  std::unordered_map<std::string, std::size_t> index_;  // into variables_
  std::vector<std::size_t> bytes_;                      // remote, then per device
  std::vector<std::size_t> alignments_;                 // by device
};

}  // namespace sluice::program
