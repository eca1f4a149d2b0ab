#include "sluice/api/compile_plan.h"

#include <algorithm>

#include "sluice/parallel/plan_rules.h"

namespace sluice {
namespace {

/// The CPU has no rules of its own to enforce.
parallel::IpuRules rulesOf(const Options& options) {
  return options.device().enforceIpuRules.value_or(false) ? parallel::IpuRules::Enforced
                                                          : parallel::IpuRules::Off;
}

parallel::Recompute recomputeOf(const Options& options) {
  switch (options.compile().recomputation) {
    case Recomputation::Pipeline:
      return parallel::Recompute::Yes;
    case Recomputation::None:
      return parallel::Recompute::No;
    case Recomputation::Default:
      break;
  }
  return rulesOf(options) == parallel::IpuRules::Enforced ? parallel::Recompute::IfPipelined
                                                          : parallel::Recompute::No;
}

/// Whether the ops say themselves where they run, as those of a Builder may.
bool isAnnotated(const ir::Graph& graph, const Options& options) {
  return graph.blocks().empty() && options.compile().virtualGraphMode != VirtualGraphMode::Off &&
         std::ranges::any_of(graph.order(), [&](ir::OpId id) {
           const ir::Op& op = graph.op(id);
           return op.place.pass == ir::Pass::Forward && op.place.stage >= 0;
         });
}

bool isContinuous(const ir::Graph& graph, const Options& options) {
  return options.compile().continuousWeightUpdates &&
         std::ranges::any_of(graph.order(), [&](ir::OpId id) {
           return graph.op(id).place.pass == ir::Pass::Backward;
         });
}

}  // namespace

CompiledProgram planProgram(ir::Graph& graph,
                            std::int32_t microBatches,
                            const Options& options,
                            parallel::VariableHomes homes) {
  const bool annotated = isAnnotated(graph, options);
  const bool continuous = isContinuous(graph, options);
  const Strategy strategy = annotated && !options.compile().enablePipelining
                                ? Strategy(ShardedExecution())
                                : options.executionStrategy();
  CompiledProgram compiled;
  compiled.plan = parallel::planExecution(graph,
                                          strategy,
                                          {.microBatches = microBatches,
                                           .recompute = recomputeOf(options),
                                           .continuous = continuous,
                                           .annotated = annotated},
                                          std::move(homes));
  parallel::RuleReport report =
      parallel::checkPlan(graph,
                          compiled.plan,
                          strategy,
                          {.rules = rulesOf(options),
                           .roundUp = options.device().autoRoundNumDevices ? parallel::RoundUp::Yes
                                                                           : parallel::RoundUp::No,
                           .replicas = options.replicationFactor(),
                           .microBatches = microBatches,
                           .continuous = continuous,
                           .firstDevice = options.device().deviceId});
  compiled.warnings = std::move(report.warnings);
  compiled.devices = report.devices;
  return compiled;
}

}  // namespace sluice
