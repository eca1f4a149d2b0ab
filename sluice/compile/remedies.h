// Remedies: other settings for a plan that is over its byte budget, with the words a user would
// write. They are candidates; fitPlan plans each and names those that fit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/parallel/execution_plan.h"

namespace sluice::compiler {

struct Remedy {
  /// Families of changes of which the first that fits is enough.
  enum class Family : std::uint8_t { None, OffChip, Phases };

  std::string text;
  parallel::Strategy strategy;
  parallel::PlanOptions plan;
  Family family = Family::None;
};

/// The plan that does not fit.
struct TooLarge {
  const ir::Graph& graph;  ///< all passes done, not placed
  const parallel::Strategy& strategy;
  const parallel::PlanOptions& plan;
  /// Bytes that the backward of each stage keeps of its forward, without recomputation.
  std::function<std::vector<std::int64_t>()> stash = {};
};

/// Of phased execution: the same phases with tensors elsewhere between them, and made again instead
/// of kept.
std::vector<Remedy> remediesForPhases(const TooLarge& found);

/// Of any strategy. A bounded number: a few schedules, recomputation, one more device, state in
/// remote memory, and a phase per block.
std::vector<Remedy> remediesFor(const TooLarge& found);

}  // namespace sluice::compiler
