#include "sluice/api/compile_plan.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "sluice/api/chosen_devices.h"
#include "sluice/api/environment_dumps.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

parallel::IpuRules rulesOf(const Options& options) {
  return keepsIpuRules(options) ? parallel::IpuRules::Enforced : parallel::IpuRules::Off;
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

/// Where dumps go, the option, else a folder per program below that of the environment, and which.
EnvironmentDumps dumpsOf(const Options& options, const std::string& program) {
  EnvironmentDumps dumps = dumpsOfEnvironment();
  if (!options.dumpDirectory().empty()) {
    dumps.folder =
        (std::filesystem::path(options.report().logDir) / options.dumpDirectory()).string();
  } else if (!dumps.folder.empty()) {
    log::info("session", "SLUICE_DUMP is set: writing graphs to {}/{}", dumps.folder, program);
    dumps.folder = (std::filesystem::path(dumps.folder) / program).string();
  }
  return dumps;
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
  if (options.allReplicas() == 1) {
    warnings.emplace_back(
        "useReplicatedTensorSharding needs a replicationFactor above 1 and is ignored");
    return;
  }
  if (plan.weight.sharded && options.compile().continuousWeightUpdates) {
    raise<Unsupported>(
        "useReplicatedTensorSharding of weights with continuousWeightUpdates: replicas would have "
        "to exchange parts in the middle of a micro-batch; switch one of them off");
  }
}

/// How the tensors of a class are shared between replicas.
optim::StateSharding shardingOf(const parallel::TensorLocation& location, const Options& options) {
  return {.replicas = location.sharded ? options.allReplicas() : 1,
          .minElements = location.minElementsToShard};
}

/// Where the host's data moves while devices compute.
program::OverlapPlan overlapOf(const Options& options) {
  const DeviceOptions& device = options.device();
  const auto modeOf = [&](std::string_view setter, std::optional<OverlapMode> mode) {
    if (mode && *mode != OverlapMode::NoOverlap && keepsIpuRules(options) &&
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

/// The pattern of the barriers, if there are any.
std::optional<SyncPattern> barriersOf(const Options& options) {
  const DeviceOptions& device = options.device();
  return device.barriers ? std::optional(device.syncPattern) : std::nullopt;
}

std::vector<std::string> warningsOf(const Options& options) {
  std::vector<std::string> warnings;
  checkSharding(options, warnings);
  if (!options.device().barriers && options.device().syncPattern != SyncPattern::Full) {
    warnings.push_back(
        fmt::format("syncPattern {} is that of barriers, which barriers(true) switches on; without "
                    "them a device waits for the data that it needs",
                    name(options.device().syncPattern)));
  }
  return warnings;
}

parallel::RuleContext ruleContext(const Options& options) {
  const DeviceOptions& device = options.device();
  return {.rules = rulesOf(options),
          .roundUp = device.autoRoundNumDevices ? parallel::RoundUp::Yes : parallel::RoundUp::No,
          .deviceIds = device.deviceIds,
          .selectedDevices = device.selectedDevices,
          .selectedPerReplica = device.selectedPerReplica,
          .sharedBuffers = options.state().broadcastBuffers};
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

bool cutsAutomatically(const Options& options) {
  return options.executionStrategy().automaticDevices() > 0;
}

namespace {

/// Of an automatic strategy.
parallel::PartitionOptions automaticPartition(bool training, const Options& options) {
  const Strategy& strategy = options.executionStrategy();
  if (options.compile().virtualGraphMode != VirtualGraphMode::Off) {
    raise<InvalidArgument>(
        "{} cuts the model, and so does virtualGraphMode: leave virtualGraphMode Off, or use "
        "another strategy",
        strategy.str());
  }
  const std::int32_t devices = strategy.automaticDevices();
  const std::int32_t rounds = devices > 1 ? strategy.stagesPerDevice() : 1;
  double sum = 0;
  for (const double share : strategy.shares()) {
    sum += share * rounds;
  }
  parallel::PartitionOptions partition{
      .mode = devices > 1 ? VirtualGraphMode::Auto : VirtualGraphMode::Off,
      .pipelining = devices > 1 && strategy.kind() == parallel::StrategyKind::Pipelined,
      .devices = devices * rounds,
      .training = training,
      .accumulation = options.training.gradientAccumulation() > 1,
      .memoryBytes = options.memoryPerDevice() / static_cast<std::size_t>(rounds),
      .setting = "the number of stages of an automatic strategy"};
  const bool turnsBack = strategy.schedule() == PipelineKind::ZeroBubble;  // in the shape of a V
  for (std::int32_t round = 0; round < rounds; ++round) {
    for (std::int32_t d = 0; d < devices; ++d) {
      const std::int32_t device = turnsBack && round % 2 == 1 ? devices - 1 - d : d;
      partition.deviceOfPart.push_back(device);
      if (!strategy.shares().empty()) {
        partition.ratios.push_back(strategy.shares()[static_cast<std::size_t>(device)] / sum);
      }
    }
  }
  return partition;
}

}  // namespace

parallel::PartitionOptions partitionOf(bool training, const Options& options) {
  if (cutsAutomatically(options)) {
    return automaticPartition(training, options);
  }
  const CompileOptions& compile = options.compile();
  return {.mode = compile.virtualGraphMode,
          .pipelining = compile.enablePipelining,
          .ratios = compile.virtualGraphSplitRatios,
          .devices = compile.devicesPerReplica,
          .training = training,
          .accumulation = options.training.gradientAccumulation() > 1,
          .memoryBytes = options.memoryPerDevice()};
}

compiler::SyntheticInputs syntheticInputs(SyntheticDataMode mode) {
  const ir::Initializer floats = mode == SyntheticDataMode::Zeros ? ir::Initializer::constant(0)
                                 : mode == SyntheticDataMode::RandomNormal
                                     ? ir::Initializer::normal(0, 1)
                                     : ir::Initializer::uniform(0, 1);
  return {.prefix = fmt::format("{}{}/", kSyntheticPrefix, name(mode)), .floats = floats};
}

compiler::TrainingGraphOptions trainingGraphOptions(std::int64_t accumulation,
                                                    const Options& options) {
  const parallel::LocationPlan locations = options.tensorLocations.plan();
  return {.accumulation = static_cast<std::int32_t>(accumulation),
          .reduction = options.training.accumulationReduction(),
          .replicaReduction = options.training.replicationReductionType(),
          .meanStrategy = options.training.givenMeanReductionStrategy(),
          .replicas = options.allReplicas(),
          .automaticLossScaling = options.training.automaticLossScaling(),
          .sharding = shardingOf(locations.optimizer, options),
          .accumulatorSharding = shardingOf(locations.accumulator, options),
          .statisticsPeriod = options.training.gradientStatisticsPeriod(),
          .stochasticRounding = options.precision.stochasticRounding()};
}

namespace {

/// How a traced graph gets its phases, if it is cut into some.
std::optional<parallel::AnnotatePhases> phasesOf(const Options& options) {
  const std::optional<Strategy> strategy = cutIntoPhases(options);
  if (!strategy) {
    return std::nullopt;
  }
  return parallel::AnnotatePhases{
      .phases = strategy->automaticPhases(),
      .groups = strategy->kind() == parallel::StrategyKind::ParallelPhased ? 2 : 1,
      .annotated = options.compile().virtualGraphMode == VirtualGraphMode::ExecutionPhases};
}

}  // namespace

compiler::CompileRequest compileRequest(ir::Graph graph,
                                        std::int32_t microBatches,
                                        std::vector<program::DrainRule> drainRules,
                                        const Options& options) {
  const CompileOptions& settings = options.compile();
  // A second slot pays off as soon as another micro-batch follows, in this round or the next.
  const bool several = microBatches > 1 || options.deviceIterations() > 1;
  EnvironmentDumps dumps = dumpsOf(options, graph.name());
  return {
      .graph = std::move(graph),
      .microBatches = microBatches,
      .replicas = options.allReplicas(),
      .phases = phasesOf(options),
      .foldBatchNorm = settings.foldBatchNorm,
      // Checks look at every op's result, also at what fusion would keep to itself.
      .fusion = options.fusion() && !options.precision.floatingPointExceptions(),
      .numbersNames = options.report().traceValues != TraceValues::None,
      .strategy = cutIntoPhases(options).value_or(options.executionStrategy()),
      .usesAnnotations =
          settings.virtualGraphMode != VirtualGraphMode::Off || cutsAutomatically(options),
      .pipelinesAnnotated = settings.enablePipelining ||
                            (cutsAutomatically(options) && options.executionStrategy().kind() ==
                                                               parallel::StrategyKind::Pipelined),
      .plan = {.recompute = recomputeOf(options),
               .continuous = settings.continuousWeightUpdates,
               .locations = options.tensorLocations.plan()},
      .rules = ruleContext(options),
      .warnings = warningsOf(options),
      .lower = {.lookahead = several ? 1 : 0,
                .memoryPerDevice = options.memoryPerDevice(),
                .drainRules = std::move(drainRules),
                .overlap = overlapOf(options),
                .barriers = barriersOf(options)},
      .proves = options.verifyPrograms(),
      .dumpFolder = std::move(dumps.folder),
      .dumps = std::move(dumps.selection),
  };
}

}  // namespace sluice
