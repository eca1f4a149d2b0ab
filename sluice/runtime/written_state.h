// What of a model's state a program writes: what has to be put back when a step of it fails.
// Accumulators do not count: every round begins them anew.
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
  std::int32_t device = 0;  ///< or program::kRemote
  std::size_t offset = 0;   ///< in the state of the device
  std::size_t bytes = 0;
};

struct WrittenState {
  std::vector<WrittenSlice> slices;
  std::size_t bytes = 0;        ///< of all slices
  std::vector<bool> segments;   ///< which of the program's write one
  std::vector<bool> transfers;  ///< the same
};

WrittenState writtenState(const program::Program& program, const program::StatePlan& plan);

}  // namespace sluice::runtime
