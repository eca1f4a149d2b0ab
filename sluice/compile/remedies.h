// Remedies: other settings for a plan that exceeds its byte budget, in the words that a user would
// write. They are candidates; fitPlan plans each of them and names those that fit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/parallel/execution_plan.h"

namespace sluice::compiler {

struct Remedy {
  /// Families of changes; of each family only the first change that fits is named.
  enum class Family : std::uint8_t { None, OffChip, Phases };

  std::string text;
  parallel::Strategy strategy;
  parallel::PlanOptions plan;
  Family family = Family::None;
};

/// The plan that does not fit.
struct TooLarge {
  const ir::Graph& graph;  ///< after all passes, not placed
  const parallel::Strategy& strategy;
  const parallel::PlanOptions& plan;
  /// The bytes that each stage keeps from its forward to its backward pass, without recomputation.
  std::function<std::vector<std::int64_t>()> stash = {};
};

/// For phased execution: the same phases, but tensors are elsewhere between them, or are recomputed
/// instead of kept.
std::vector<Remedy> remediesForPhases(const TooLarge& found);

/// For any strategy: a bounded number of remedies. They are a few schedules, recomputation, one
/// more device, state in remote memory, and a phase per block.
std::vector<Remedy> remediesFor(const TooLarge& found);

}  // namespace sluice::compiler
