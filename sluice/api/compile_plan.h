// What the options say about planning a finished graph, and the rules its plan is checked against.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/ir/graph.h"
#include "sluice/optim/update_context.h"
#include "sluice/parallel/execution_plan.h"
#include "sluice/parallel/plan_rules.h"
#include "sluice/runtime/engine.h"

namespace sluice {

/// Programs of more tasks are proven only on request: the proof would be over 5 % of compiling.
inline constexpr std::size_t kProvenTasks = 20'000;

/// A program and how it came about.
struct CompiledProgram {
  std::shared_ptr<runtime::LoadedProgram> program;  ///< a step that uses it owns it, too
  parallel::ExecutionPlan plan;
  bool proven = false;  ///< by program::verify
  std::vector<std::string> warnings = {};
  std::int64_t devices = 1;  ///< reserved for all replicas
};

/// The strategy under which a traced graph is cut into phases before gradients are added, if any.
std::optional<Strategy> cutIntoPhases(const Options& options);

/// A Builder's annotated graph is sharded unless its options pipeline it.
Strategy strategyOf(const ir::Graph& graph, const Options& options);
parallel::PlanOptions planOptions(const ir::Graph& graph,
                                  std::int32_t microBatches,
                                  const Options& options);

/// The weights of a graph that replicas keep in parts: as other models of the module have them,
/// else as the options say. Throws InvalidArgument if they are those of another number of replicas.
std::set<std::string, std::less<>> weightsInParts(const ir::Graph& graph,
                                                  const program::StatePlan& state,
                                                  const Options& options,
                                                  std::vector<std::string>& warnings);

/// How the optimizer's state is shared between replicas.
optim::StateSharding stateShardingOf(const Options& options);

/// Where the host's data moves while devices compute. Throws InvalidArgument for overlap without
/// I/O tiles where the IPU's rules are enforced.
program::OverlapPlan overlapOf(const Options& options);

/// The pattern of the barriers, if there are any.
std::optional<SyncPattern> barriersOf(const Options& options);

/// Checks a plan of a placed graph. Throws InvalidArgument for a rule that is enforced and broken;
/// the report has the others as warnings.
parallel::RuleReport checkRules(const ir::Graph& placed,
                                const parallel::ExecutionPlan& plan,
                                const Strategy& strategy,
                                std::int32_t microBatches,
                                const Options& options);

}  // namespace sluice
