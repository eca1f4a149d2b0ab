// The part of a model's state that a program writes and that must be restored if one of its steps
// fails. Accumulators do not count, because every round starts them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"

namespace sluice::runtime {

struct WrittenSlice {
  std::string variable;
  std::int32_t device = 0;  ///< a device, or program::kRemote
  std::size_t offset = 0;   ///< in the state of the device
  std::size_t bytes = 0;
};

struct WrittenState {
  std::vector<WrittenSlice> slices;
  std::size_t bytes = 0;        ///< of all slices
  std::vector<bool> segments;   ///< by segment: whether it writes a slice
  std::vector<bool> transfers;  ///< by transfer: the same
};

WrittenState writtenState(const program::Program& program, const program::StatePlan& plan);

}  // namespace sluice::runtime
