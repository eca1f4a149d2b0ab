#include "sluice/api/options_table.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/near_names.h"

namespace sluice::detail {
namespace {

std::string print(bool value) {
  return value ? "true" : "false";
}

template <class T>
requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) std::string print(T value) {
  return fmt::format("{}", value);
}

std::string print(const std::string& text) {
  return quotedText(text);
}

template <class E>
requires std::is_enum_v<E> std::string print(E value) {
  return std::string(name(value));
}

template <class T>
std::string print(const std::optional<T>& value) {
  return value ? print(*value) : "none";
}

std::string print(const Anchor& anchor) {
  return fmt::format("[{}, {}, {}, {}]",
                     print(anchor.shortName),
                     print(anchor.longName),
                     name(anchor.mode),
                     anchor.period);
}

std::string print(const std::map<std::string, bool, std::less<>>& items) {
  std::vector<std::string> parts;
  parts.reserve(items.size());
  for (const auto& [key, value] : items) {
    parts.push_back(fmt::format("[{}, {}]", print(key), print(value)));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

template <class T>
std::string print(const std::vector<T>& items) {
  std::vector<std::string> parts;
  parts.reserve(items.size());
  for (const T& item : items) {
    parts.push_back(print(item));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

void applyOutputMode(Options& o, Arguments& a) {
  const auto mode = a.enumerator<OutputMode>();
  o.outputMode(mode, a.more() ? a.integer() : 1);
}

void applyAnchor(Options& o, Arguments& a) {
  std::string shortName = a.text();
  std::string longName = a.text();
  const OutputMode mode = a.more() ? a.enumerator<OutputMode>() : OutputMode::Default;
  o.anchorTensor(std::move(shortName), std::move(longName), mode, a.more() ? a.integer() : 1);
}

void applyGrouping(Options& o, Arguments& a) {
  const std::int64_t size = a.integer();
  o.inputReplicaGrouping(size, a.enumerator<CommGroupType>());
}

void applyProcess(Options& o, Arguments& a) {
  const std::int64_t id = a.integer();
  o.distributed.configureProcessId(id, a.integer());
}

void applyEnvVarNames(Options& o, Arguments& a) {
  std::string processes = a.text();
  o.distributed.setEnvVarNames(std::move(processes), a.text());
}

void applyMemory(Options& o, Arguments& a) {
  if (a.none()) {
    o.memoryPerDevice(std::size_t{0});
  } else {
    o.memoryPerDevice(std::string_view(a.size()));
  }
}

void applyAvailable(Options& o, Arguments& a) {
  std::map<std::string, double> proportions;
  while (a.more() && !a.none()) {
    std::string device = a.text();
    proportions.insert_or_assign(std::move(device), a.number());
  }
  o.setAvailableMemoryProportion(proportions);
}

std::string printAvailable(const Options& o) {
  std::vector<std::string> parts;
  for (const auto& [device, proportion] : o.device().availableMemory) {
    parts.push_back(fmt::format("\"IPU{}\", {}", device, print(proportion)));
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

void applyRemote(Options& o, Arguments& a) {
  std::string path = a.text();
  if (!a.more() || a.none()) {
    o.remoteMemory(std::move(path));
  } else {
    o.remoteMemory(std::move(path), std::string_view(a.size()));
  }
}

std::string printRemote(const Options& o) {
  const std::size_t bytes = o.device().remoteBytes;
  return print(o.device().remotePath) + ", " + (bytes == 0 ? "none" : std::to_string(bytes));
}

void applySeed(Options& o, Arguments& a) {
  if (a.none()) {
    o.randomSeed(std::nullopt);
    return;
  }
  const std::int64_t seed = a.integer();
  if (seed < 0) {
    raise<InvalidArgument>("randomSeed: expected a number from 0 on, got {}", seed);
  }
  o.randomSeed(static_cast<std::uint64_t>(seed));
}

void applyDeviceId(Options& o, Arguments& a) {
  if (a.none()) {
    o.useDeviceId(std::nullopt);
  } else {
    o.useDeviceId(a.integer());
  }
}

void applySelection(Options& o, Arguments& a) {
  if (a.none()) {
    o.autoSelectDevices(std::nullopt);
    return;
  }
  const std::int64_t devices = a.integer();
  o.autoSelectDevices(devices, a.integer());
}

void applySelectedIds(Options& o, Arguments& a) {
  std::vector<std::int64_t> ids = a.integers();
  o.selectDevices(std::move(ids), a.integer());
}

std::string printSelection(const Options& o) {
  return o.device().selectedDevices == 0
             ? "none"
             : fmt::format("{}, {}", o.device().selectedDevices, o.device().selectedPerReplica);
}

void applyPartials(Options& o, Arguments& a) {
  const std::string text = a.text();
  const std::optional<DType> dtype = parseDType(text);
  if (!dtype) {
    raise<InvalidArgument>("setPartialsType: expected f32 or f16, got {}", text);
  }
  o.precision.setPartialsType(*dtype);
}

std::string print(const Policy& policy) {
  if (policy == Policy::standard()) {
    return "Default";
  }
  return fmt::format("Policy({}, {}, {}, {}, {})",
                     print(policy.fp16),
                     print(policy.fp32),
                     print(policy.promote),
                     print(policy.demote),
                     print(std::string(name(policy.half))));
}

void applyLossScaling(Options& o, Arguments& a) {
  const bool on = a.boolean();
  // The flag alone leaves the rest as it is.
  optim::LossScalingOptions settings =
      o.training.automaticLossScaling().value_or(optim::LossScalingOptions());
  if (a.more()) {
    settings.binEdgeLocation = a.number();
  }
  if (a.more()) {
    settings.thresholdUpperCountProportion = a.number();
  }
  if (a.more()) {
    settings.updatePeriod = a.integer();
  }
  if (a.more()) {
    settings.gradientTensorTrackingMethod = a.enumerator<GradientTensorTrackingMethod>();
  }
  if (a.more()) {
    settings.toTrackTensors = a.texts();
  }
  o.training.setAutomaticLossScaling(on, std::move(settings));
}

std::string printLossScaling(const Options& o) {
  const std::optional<optim::LossScalingOptions>& settings = o.training.automaticLossScaling();
  if (!settings || *settings == optim::LossScalingOptions()) {
    return print(settings.has_value());
  }
  return fmt::format("true, {}, {}, {}, {}, {}",
                     settings->binEdgeLocation,
                     settings->thresholdUpperCountProportion,
                     settings->updatePeriod,
                     print(settings->gradientTensorTrackingMethod),
                     print(settings->toTrackTensors));
}

/// true, false or none.
std::optional<OverlapMode> maybeOverlap(Arguments& a) {
  return a.none() ? std::optional<OverlapMode>() : a.enumerator<OverlapMode>();
}

std::optional<bool> maybe(Arguments& a) {
  return a.none() ? std::optional<bool>() : a.boolean();
}

void applyCaching(Options& o, Arguments& a) {
  std::optional<std::string> folder;
  if (!a.none()) {
    folder = a.text();
  }
  if (a.more()) {
    o.enableExecutableCaching(std::move(folder), a.size());
  } else {
    o.enableExecutableCaching(std::move(folder));
  }
}

std::string printCaching(const Options& o) {
  return fmt::format("{}, {}", print(o.compile().cacheFolder), o.compile().cacheBytes);
}

void applyRecovery(Options& o, Arguments& a) {
  const std::int64_t retries = a.integer();
  const double backoff = a.more() ? a.number() : RecoveryOptions().backoff;
  o.recovery(retries, backoff, a.more() ? a.integer() : 1);
}

std::string printRecovery(const Options& o) {
  return fmt::format("{}, {}, {}", o.recovery().retries, o.recovery().backoff, o.recovery().every);
}

std::string printMemory(const Options& o) {
  return o.memoryPerDevice() == 0 ? "none" : std::to_string(o.memoryPerDevice());
}

using O = Options;
using A = Arguments;
using Text = std::string;

constexpr Setting kSettings[] = {
    {"deviceIterations",
     [](O& o, A& a) { o.deviceIterations(a.integer()); },
     [](const O& o) { return print(o.batch().deviceIterations); }},
    {"autoSelectDevices", applySelection, printSelection},  // before what it sets
    {"selectDevices", applySelectedIds, nullptr},
    {"replicationFactor",
     [](O& o, A& a) { o.replicationFactor(a.integer()); },
     [](const O& o) { return print(o.batch().replicationFactor); }},
    {"inputReplicaGrouping",
     applyGrouping,
     [](const O& o) {
       return print(o.batch().inputGroupSize) + ", " + print(o.batch().inputGroupType);
     }},
    {"outputMode",
     applyOutputMode,
     [](const O& o) { return print(o.outputMode()) + ", " + print(o.outputPeriod()); }},
    {"anchorTensor", applyAnchor, [](const O& o) { return print(o.batch().anchors); }},
    {"syntheticDataMode",
     [](O& o, A& a) { o.syntheticDataMode(a.enumerator<SyntheticDataMode>()); },
     [](const O& o) { return print(o.batch().syntheticData); }},
    {"enableSyntheticData", [](O& o, A& a) { o.enableSyntheticData(a.boolean()); }, nullptr},
    {"setExecutionStrategy",
     [](O& o, A& a) { o.setExecutionStrategy(a.strategy()); },
     [](const O& o) { return o.executionStrategy().str(); }},
    {"recomputation",
     [](O& o, A& a) { o.recomputation(a.enumerator<Recomputation>()); },
     [](const O& o) { return print(o.compile().recomputation); }},
    {"continuousWeightUpdates",
     [](O& o, A& a) { o.continuousWeightUpdates(a.boolean()); },
     [](const O& o) { return print(o.compile().continuousWeightUpdates); }},
    {"fusion",
     [](O& o, A& a) { o.fusion(a.boolean()); },
     [](const O& o) { return print(o.fusion()); }},
    {"constantWeights",
     [](O& o, A& a) { o.constantWeights(a.boolean()); },
     [](const O& o) { return print(o.compile().constantWeights); }},
    {"foldBatchNorm",
     [](O& o, A& a) { o.foldBatchNorm(a.boolean()); },
     [](const O& o) { return print(o.compile().foldBatchNorm); }},
    {"verifyPrograms",
     [](O& o, A& a) { o.verifyPrograms(maybe(a)); },
     [](const O& o) { return print(o.verifyPrograms()); }},
    {"dumpDirectory",
     [](O& o, A& a) { o.dumpDirectory(a.text()); },
     [](const O& o) { return print(o.dumpDirectory()); }},
    {"enablePipelining",
     [](O& o, A& a) { o.enablePipelining(a.boolean()); },
     [](const O& o) { return print(o.compile().enablePipelining); }},
    {"virtualGraphMode",
     [](O& o, A& a) { o.virtualGraphMode(a.enumerator<VirtualGraphMode>()); },
     [](const O& o) { return print(o.compile().virtualGraphMode); }},
    {"virtualGraphSplitRatios",
     [](O& o, A& a) { o.virtualGraphSplitRatios(a.numbers()); },
     [](const O& o) { return print(o.compile().virtualGraphSplitRatios); }},
    {"devicesPerReplica",
     [](O& o, A& a) { o.devicesPerReplica(a.integer()); },
     [](const O& o) { return print(o.compile().devicesPerReplica); }},
    {"executionPhases",
     [](O& o, A& a) {
       const std::int64_t phases = a.integer();
       o.executionPhases(phases, a.more() ? a.integer() : 1);
     },
     [](const O& o) {
       return print(o.compile().executionPhases) + ", " + print(o.compile().phaseGroups);
     }},
    {"enableExecutableCaching", applyCaching, printCaching},
    {"recovery", applyRecovery, printRecovery},
    {"showCompilationProgressBar",
     [](O& o, A& a) { o.showCompilationProgressBar(maybe(a)); },
     [](const O& o) { return print(o.compile().showProgressBar); }},
    {"device",
     [](O& o, A& a) { o.device(a.text()); },
     [](const O& o) { return print(o.device().names); }},
    {"threads",
     [](O& o, A& a) { o.threads(a.integer()); },
     [](const O& o) { return print(o.threads()); }},
    {"memoryPerDevice", applyMemory, printMemory},
    {"setAvailableMemoryProportion", applyAvailable, printAvailable},
    {"remoteMemory", applyRemote, printRemote},
    {"remoteBandwidth",
     [](O& o, A& a) { o.remoteBandwidth(a.number()); },
     [](const O& o) { return print(o.device().remoteBandwidth); }},
    {"undoMemory",
     [](O& o, A& a) { o.undoMemory(std::string_view(a.size())); },
     [](const O& o) { return std::to_string(o.device().undoBytes); }},
    {"connectionType",
     [](O& o, A& a) { o.connectionType(a.enumerator<ConnectionType>()); },
     [](const O& o) { return print(o.device().connection); }},
    {"useOfflineTarget",
     [](O& o, A& a) { o.useOfflineTarget(a.more() ? a.integer() : 2); },
     nullptr},
    {"useIpuModel",
     [](O& o, A& a) {
       if (!a.none()) {
         o.useIpuModel(a.boolean());
       }
     },
     [](const O& o) { return print(o.device().ipuModel); }},
    {"useDeviceIds",
     [](O& o, A& a) { o.useDeviceIds(a.integers()); },
     [](const O& o) { return print(o.device().deviceIds); }},
    {"useDeviceId", applyDeviceId, nullptr},
    {"inputOverlap",
     [](O& o, A& a) { o.inputOverlap(maybeOverlap(a)); },
     [](const O& o) { return print(o.device().inputOverlap); }},
    {"outputOverlap",
     [](O& o, A& a) { o.outputOverlap(maybeOverlap(a)); },
     [](const O& o) { return print(o.device().outputOverlap); }},
    {"barriers",
     [](O& o, A& a) { o.barriers(a.boolean()); },
     [](const O& o) { return print(o.device().barriers); }},
    {"syncPattern",
     [](O& o, A& a) { o.syncPattern(a.enumerator<SyncPattern>()); },
     [](const O& o) { return print(o.device().syncPattern); }},
    {"autoRoundNumDevices",
     [](O& o, A& a) { o.autoRoundNumDevices(a.boolean()); },
     [](const O& o) { return print(o.device().autoRoundNumDevices); }},
    {"enforceIpuRules",
     [](O& o, A& a) { o.enforceIpuRules(maybe(a)); },
     [](const O& o) { return print(o.device().enforceIpuRules); }},
    {"stallTimeout",
     [](O& o, A& a) { o.stallTimeout(a.number()); },
     [](const O& o) { return print(o.device().stallTimeout); }},
    {"tuningTable",
     [](O& o, A& a) { o.tuningTable(a.text()); },
     [](const O& o) { return print(o.tuningTable()); }},
    {"randomSeed", applySeed, [](const O& o) { return print(o.randomSeed()); }},
    {"broadcastBuffers",
     [](O& o, A& a) { o.broadcastBuffers(a.boolean()); },
     [](const O& o) { return print(o.state().broadcastBuffers); }},
    {"updatableNamedBuffers",
     [](O& o, A& a) { o.updatableNamedBuffers(a.texts()); },
     [](const O& o) { return print(o.state().updatableNamedBuffers); }},
    {"relaxOptimizerAttributesChecks",
     [](O& o, A& a) { o.relaxOptimizerAttributesChecks(a.boolean()); },
     [](const O& o) { return print(o.state().relaxOptimizerAttributesChecks); }},
    {"enableStableNorm",
     [](O& o, A& a) { o.enableStableNorm(a.boolean()); },
     [](const O& o) { return print(o.state().stableNorm); }},
    {"rearrangeAnchorsOnHost",
     [](O& o, A& a) { o.rearrangeAnchorsOnHost(a.boolean()); },
     [](const O& o) { return print(o.state().rearrangeAnchorsOnHost); }},
    {"modelName",
     [](O& o, A& a) { o.modelName(a.text()); },
     [](const O& o) { return print(o.report().modelName); }},
    {"maxRepeatLogs",
     [](O& o, A& a) { o.maxRepeatLogs(a.integer()); },
     [](const O& o) { return print(o.report().maxRepeatLogs); }},
    {"disableModuleNamescope",
     [](O& o, A& a) { o.disableModuleNamescope(a.boolean()); },
     [](const O& o) { return print(o.report().disableModuleNamescope); }},
    {"logDir",
     [](O& o, A& a) { o.logDir(a.text()); },
     [](const O& o) { return print(o.report().logDir); }},
    {"logCycleCount",
     [](O& o, A& a) { o.logCycleCount(a.boolean()); },
     [](const O& o) { return print(o.report().logCycleCount); }},
    {"enableProfiling",
     [](O& o, A& a) { o.enableProfiling(a.text()); },
     [](const O& o) { return print(o.report().profileDir); }},
    {"traceValues",
     [](O& o, A& a) { o.traceValues(a.enumerator<TraceValues>()); },
     [](const O& o) { return print(o.report().traceValues); }},
    {"traceKernels",
     [](O& o, A& a) { o.traceKernels(a.boolean()); },
     [](const O& o) { return print(o.report().traceKernels); }},
    {"training.gradientAccumulation",
     [](O& o, A& a) { o.training.gradientAccumulation(a.integer()); },
     [](const O& o) { return print(o.training.gradientAccumulation()); }},
    {"training.accumulationAndReplicationReductionType",
     [](O& o, A& a) {
       o.training.accumulationAndReplicationReductionType(a.enumerator<Reduction>());
     },
     [](const O& o) { return print(o.training.accumulationAndReplicationReductionType()); }},
    {"training.replicationReductionType",
     [](O& o, A& a) {
       o.training.replicationReductionType(a.none() ? std::nullopt
                                                    : std::optional(a.enumerator<Reduction>()));
     },
     [](const O& o) { return print(o.training.replicationReductionType()); }},
    {"training.setMeanAccumulationAndReplicationReductionStrategy",
     [](O& o, A& a) {
       o.training.setMeanAccumulationAndReplicationReductionStrategy(
           a.enumerator<MeanReductionStrategy>());
     },
     [](const O& o) { return print(o.training.meanReductionStrategy()); }},
    {"training.setAutomaticLossScaling", applyLossScaling, printLossScaling},
    {"training.logGradientStatistics",
     [](O& o, A& a) { o.training.logGradientStatistics(a.integer()); },
     [](const O& o) { return print(o.training.gradientStatisticsPeriod()); }},
    {"training.setConvolutionDithering",
     [](O& o, A& a) { o.training.setConvolutionDithering(a.boolean()); },
     [](const O& o) { return print(o.training.convolutionDithering()); }},
    {"precision.autocastEnabled",
     [](O& o, A& a) { o.precision.autocastEnabled(a.boolean()); },
     [](const O& o) { return print(o.precision.autocastEnabled()); }},
    {"precision.autocastPolicy",
     [](O& o, A& a) { o.precision.autocastPolicy(a.policy()); },
     [](const O& o) { return print(o.precision.autocastPolicy()); }},
    {"precision.halfFloatCasting",
     [](O& o, A& a) { o.precision.halfFloatCasting(a.enumerator<HalfFloatCasting>()); },
     [](const O& o) { return print(o.precision.halfFloatCasting()); }},
    {"precision.runningStatisticsAlwaysFloat",
     [](O& o, A& a) { o.precision.runningStatisticsAlwaysFloat(a.boolean()); },
     [](const O& o) { return print(o.precision.runningStatisticsAlwaysFloat()); }},
    {"precision.enableStochasticRounding",
     [](O& o, A& a) { o.precision.enableStochasticRounding(a.boolean()); },
     [](const O& o) { return print(o.precision.stochasticRounding()); }},
    {"precision.enableFloatingPointExceptions",
     [](O& o, A& a) { o.precision.enableFloatingPointExceptions(a.boolean()); },
     [](const O& o) { return print(o.precision.floatingPointExceptions()); }},
    {"precision.setPartialsType",
     applyPartials,
     [](const O& o) { return print(Text(name(o.precision.partialsType()))); }},
    {"jit.traceModel",
     [](O& o, A& a) { o.jit.traceModel(a.boolean()); },
     [](const O& o) { return print(o.jit.traceModel()); }},
    {"tensorLocations.setTensorLocation",
     [](O& o, A& a) {
       std::string tensor = a.text();
       o.tensorLocations.setTensorLocation(std::move(tensor), a.boolean());
     },
     [](const O& o) { return print(o.tensorLocations.tensors()); }},
    {"tensorLocations.setActivationLocation",
     [](O& o, A& a) { o.tensorLocations.setActivationLocation(a.location()); },
     [](const O& o) { return o.tensorLocations.activation().str(); }},
    {"tensorLocations.setWeightLocation",
     [](O& o, A& a) { o.tensorLocations.setWeightLocation(a.location()); },
     [](const O& o) { return o.tensorLocations.weight().str(); }},
    {"tensorLocations.setOptimizerLocation",
     [](O& o, A& a) { o.tensorLocations.setOptimizerLocation(a.location()); },
     [](const O& o) { return o.tensorLocations.optimizer().str(); }},
    {"tensorLocations.setAccumulatorLocation",
     [](O& o, A& a) { o.tensorLocations.setAccumulatorLocation(a.location()); },
     [](const O& o) { return o.tensorLocations.accumulator().str(); }},
    {"tensorLocations.numIOTiles",
     [](O& o, A& a) { o.tensorLocations.numIOTiles(a.integer()); },
     [](const O& o) { return print(o.tensorLocations.numIOTiles()); }},
    {"distributed.setEnvVarNames",
     applyEnvVarNames,
     [](const O& o) {
       return print(o.distributed.processesName()) + ", " + print(o.distributed.idName());
     }},
    {"distributed.configureProcessId",
     applyProcess,
     [](const O& o) {
       return print(o.distributed.processId()) + ", " + print(o.distributed.numProcesses());
     }},
    {"distributed.shareModel",
     [](O& o, A& a) { o.distributed.shareModel(a.boolean()); },
     [](const O& o) { return print(o.distributed.shareModel()); }},
    {"distributed.disable", [](O& o, A& /*a*/) { o.distributed.disable(); }, nullptr},
    {kPopartSet, applyPopart, nullptr},
};

}  // namespace

std::span<const Setting> settings() {
  return kSettings;
}

const Setting& settingOf(std::string_view name) {
  // Python's name of the group begins with an underscore, which no name in C++ may.
  std::string wanted(name.starts_with("_Popart.") ? name.substr(1) : name);
  if (wanted.find('.') != std::string::npos) {
    wanted[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(wanted[0])));
  }
  const auto* found = std::ranges::find(kSettings, std::string_view(wanted), &Setting::name);
  if (found == std::end(kSettings)) {
    std::vector<std::string_view> names;
    for (const Setting& setting : kSettings) {
      names.push_back(setting.name);
    }
    raise<InvalidArgument>("unknown option '{}'{}; the options are {}",
                           name,
                           didYouMean(wanted, names),
                           fmt::join(names, ", "));
  }
  return *found;
}

void apply(Options& options, std::string_view setter, std::span<const OptionValue> arguments) {
  const Setting& setting = settingOf(setter);
  Arguments reader(setting.name, arguments);
  setting.apply(options, reader);
  reader.finish();
}

}  // namespace sluice::detail

namespace sluice {

std::string Options::str() const {
  std::string text;
  for (const detail::Setting& setting : detail::settings()) {
    if (setting.print != nullptr) {
      text += fmt::format("{}: {}\n", setting.name, setting.print(*this));
    }
  }
  return text;
}

}  // namespace sluice
