#include "sluice/api/compile_plan.h"

#include <algorithm>

#include "sluice/base/error.h"

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
      return parallel::Recompute::Pipeline;
    case Recomputation::Standard:
      return parallel::Recompute::Standard;
    case Recomputation::NormOnly:
      return parallel::Recompute::NormOnly;
    case Recomputation::All:
      return parallel::Recompute::All;
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
  if (cutIntoPhases(options)) {
    return true;
  }
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

std::optional<Strategy> cutIntoPhases(const Options& options) {
  const CompileOptions& compile = options.compile();
  if (compile.virtualGraphMode == VirtualGraphMode::ExecutionPhases) {
    const Phase all = Phase::automatic(compile.executionPhases);
    return compile.phaseGroups == 1 ? Strategy(SerialPhasedExecution(all))
                                    : Strategy(ParallelPhasedExecution(all));
  }
  return compile.strategy.automaticPhases() > 0 ? std::optional(compile.strategy) : std::nullopt;
}

Strategy strategyOf(const ir::Graph& graph, const Options& options) {
  if (const std::optional<Strategy> phased = cutIntoPhases(options)) {
    return *phased;
  }
  return isAnnotated(graph, options) && !options.compile().enablePipelining
             ? Strategy(ShardedExecution())
             : options.executionStrategy();
}

parallel::PlanOptions planOptions(const ir::Graph& graph,
                                  std::int32_t microBatches,
                                  const Options& options) {
  return {.microBatches = microBatches,
          .recompute = recomputeOf(options),
          .continuous = isContinuous(graph, options),
          .annotated = isAnnotated(graph, options),
          .locations = options.tensorLocations.plan()};
}

/// What sharding of tensors over replicas does nothing for.
void checkSharding(const Options& options, std::vector<std::string>& warnings) {
  const parallel::LocationPlan plan = options.tensorLocations.plan();
  if (plan.activation.sharded) {
    warnings.emplace_back("useReplicatedTensorSharding has no effect on activations");
  }
  if (!plan.weight.sharded && !plan.optimizer.sharded && !plan.accumulator.sharded) {
    return;
  }
  if (options.replicationFactor() == 1) {
    warnings.emplace_back(
        "useReplicatedTensorSharding needs a replicationFactor above 1 and is ignored");
    return;
  }
  if (plan.accumulator.sharded) {
    warnings.emplace_back(
        "useReplicatedTensorSharding has no effect on accumulators: micro-batches are added up "
        "before replicas are, so that results do not depend on it");
  }
  if (plan.weight.sharded && options.compile().continuousWeightUpdates) {
    raise<Unsupported>(
        "useReplicatedTensorSharding of weights with continuousWeightUpdates: replicas would have "
        "to exchange parts in the middle of a micro-batch; switch one of them off");
  }
}

std::set<std::string, std::less<>> weightsInParts(const ir::Graph& graph,
                                                  const program::StatePlan& state,
                                                  const Options& options,
                                                  std::vector<std::string>& warnings) {
  const parallel::TensorLocation& location = options.tensorLocations.plan().weight;
  const std::int32_t replicas = options.replicationFactor();
  std::set<std::string, std::less<>> weights;
  for (const ir::Variable& variable : graph.variables()) {
    const program::PlacedVariable* known = state.find(variable.name);
    const bool split = known != nullptr && known->variable.split.has_value();
    const bool wanted = location.sharded && replicas > 1 &&
                        variable.type.shape.elements() >= location.minElementsToShard;
    if (variable.role != ir::VariableRole::Weight) {
      continue;
    }
    if (wanted && known != nullptr && !split) {
      warnings.push_back(fmt::format(
          "weight '{}' stays whole: another model of the module has it whole in every replica",
          variable.name));
      continue;
    }
    if (split && known->variable.split->parts != replicas) {
      raise<InvalidArgument>(
          "weight '{}' is kept in parts by {} replicas of another model of the module: this one "
          "has "
          "{}; give it replicationFactor({})",
          variable.name,
          known->variable.split->parts,
          replicas,
          known->variable.split->parts);
    }
    if (split || wanted) {
      weights.insert(variable.name);
    }
  }
  return weights;
}

optim::StateSharding stateShardingOf(const Options& options) {
  const parallel::TensorLocation& location = options.tensorLocations.plan().optimizer;
  return {.replicas = location.sharded ? options.replicationFactor() : 1,
          .minElements = location.minElementsToShard};
}

program::OverlapPlan overlapOf(const Options& options) {
  const DeviceOptions& device = options.device();
  const auto modeOf = [&](std::string_view setter, std::optional<OverlapMode> mode) {
    if (mode && *mode != OverlapMode::NoOverlap && device.enforceIpuRules.value_or(false) &&
        options.tensorLocations.numIOTiles() == 0) {
      raise<InvalidArgument>(
          "{}({}) needs tiles that only move data: set tensorLocations.numIOTiles, or switch "
          "enforceIpuRules off",
          setter,
          name(*mode));
    }
    return mode.value_or(OverlapMode::OverlapDeviceIterationLoop);
  };
  return {modeOf("inputOverlap", device.inputOverlap),
          modeOf("outputOverlap", device.outputOverlap)};
}

std::optional<SyncPattern> barriersOf(const Options& options) {
  const DeviceOptions& device = options.device();
  return device.barriers ? std::optional(device.syncPattern) : std::nullopt;
}

parallel::RuleReport checkRules(const ir::Graph& placed,
                                const parallel::ExecutionPlan& plan,
                                const Strategy& strategy,
                                std::int32_t microBatches,
                                const Options& options) {
  parallel::RuleReport report =
      parallel::checkPlan(placed,
                          plan,
                          strategy,
                          {.rules = rulesOf(options),
                           .roundUp = options.device().autoRoundNumDevices ? parallel::RoundUp::Yes
                                                                           : parallel::RoundUp::No,
                           .replicas = options.replicationFactor(),
                           .microBatches = microBatches,
                           .continuous = options.compile().continuousWeightUpdates && plan.training,
                           .deviceIds = options.device().deviceIds,
                           .selectedDevices = options.device().selectedDevices,
                           .selectedPerReplica = options.device().selectedPerReplica,
                           .sharedBuffers = options.state().broadcastBuffers});
  checkSharding(options, report.warnings);
  if (!options.device().barriers && options.device().syncPattern != SyncPattern::Full) {
    report.warnings.push_back(
        fmt::format("syncPattern {} is that of barriers, which barriers(true) switches on; without "
                    "them a device waits for the data that it needs",
                    name(options.device().syncPattern)));
  }
  return report;
}

}  // namespace sluice
