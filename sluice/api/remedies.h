// Remedies: other settings for a plan that is over its byte budget, with the words a user would
// write. They are candidates; lowering plans each and names those that fit.
#pragma once

#include <string>
#include <vector>

#include "sluice/api/lowering.h"

namespace sluice {

struct Remedy {
  /// Families of changes of which the first that fits is enough.
  enum Family : std::uint8_t { kNone, kOffChip, kPhases };

  std::string text;
  parallel::Strategy strategy;
  parallel::PlanOptions plan;
  Family family = kNone;
};

/// Of phased execution: the same phases with tensors elsewhere between them, and made again instead
/// of kept.
std::vector<Remedy> remediesForPhases(const LoweringRequest& request);

/// Of any strategy. A bounded number: a few schedules, recomputation, one more device, state in
/// remote memory, and a phase per block.
std::vector<Remedy> remediesFor(const LoweringRequest& request);

}  // namespace sluice
