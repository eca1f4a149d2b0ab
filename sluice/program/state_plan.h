// StatePlan: where each variable of a model is stored. One plan serves every program of the model,
// so a weight has one copy. The plan only grows, because a program may add variables; it never
// moves them. If the loop of a program writes a variable on a device that is not its home, the
// variable gets a slice there, too, and ModelState::bringTo moves the value between programs. A
// variable on device kRemote is in remote memory; devices have windows on it in their transient
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/ir/value.h"

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
  std::vector<StateSlice> more = {};  ///< slices on other devices

  /// All slices; the first is its home.
  std::vector<StateSlice> slices() const;
};

class StatePlan {
 public:
  StatePlan() = default;
  /// The plan that has these variables in these places, and arenas of these sizes: that of remote
  /// memory, then those of the devices. Throws InvalidArgument if two variables have one name or
  /// share bytes, or if one lies outside its arena.
  StatePlan(std::vector<PlacedVariable> variables, std::vector<std::size_t> bytes);

  /// Sets the alignment of slices by device; the last one applies to all other devices. Existing
  /// slices stay where they are.
  void setAlignments(std::vector<std::size_t> byDevice) { alignments_ = std::move(byDevice); }
  /// Adds the variable, or checks that the existing one has the same type and role; throws
  /// InvalidArgument otherwise.
  const PlacedVariable& add(const ir::Variable& variable, std::int32_t device);
  /// The slice of a variable on this device; adds one if there is none.
  StateSlice sliceOn(std::string_view name, std::int32_t device);
  const PlacedVariable* find(std::string_view name) const;
  const std::vector<PlacedVariable>& variables() const { return variables_; }
  std::size_t bytes(std::int32_t device) const;
  /// The sizes of all arenas: that of remote memory, then those of the devices.
  const std::vector<std::size_t>& arenas() const { return bytes_; }

 private:
  StateSlice allocate(std::int32_t device, std::size_t bytes);

  std::vector<PlacedVariable> variables_;               // in order of arrival
  std::unordered_map<std::string, std::size_t> index_;  // into variables_
  std::vector<std::size_t> bytes_;                      // remote, then per device
  std::vector<std::size_t> alignments_;                 // by device
};

}  // namespace sluice::program
