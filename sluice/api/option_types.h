// The values of Options as plain structs, one for each part of the code that reads them, and their
// enumerations. The setters in options.h check the values; options_table.cpp prints and parses
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/nn/precision.h"
#include "sluice/optim/gradient_options.h"
#include "sluice/parallel/strategy.h"
#include "sluice/program/overlap.h"
#include "sluice/schedule/sync_groups.h"

#pragma GCC visibility push(default)

namespace sluice {

using nn::HalfFloatCasting;
using nn::Policy;
using optim::GradientTensorTrackingMethod;
using parallel::AutoStage;
using parallel::ConcurrentStages;
using parallel::IoSchedule;
using parallel::Liveness;
using parallel::ParallelPhasedExecution;
using parallel::Phase;
using parallel::PhaseOrder;
using parallel::PhaseSchedule;
using parallel::PipelinedExecution;
using parallel::PipelineKind;
using parallel::SerialPhasedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using parallel::Strategy;
using parallel::VirtualGraphMode;

/// Which micro-batches of a step are returned to the host.
enum class OutputMode : std::uint8_t { All, EveryN, Final, Sum, Default };
/// How gradients of several micro-batches and replicas become one.
using Reduction = compiler::GradientReduction;
using compiler::MeanReductionStrategy;
/// When devices are acquired: at the start, when the program is ready, or not at all.
enum class ConnectionType : std::uint8_t { Always, OnDemand, Never };
/// What the devices use in place of inputs. It is made once, and integer inputs become zeros. A
/// step then copies nothing to the devices; outputs are returned as usual.
enum class SyntheticDataMode : std::uint8_t { Off, Zeros, RandomNormal, RandomUniform };
/// Which replicas form a group: all of them; consecutive ones; or those at the same position within
/// each run of consecutive ones.
enum class CommGroupType : std::uint8_t { All, Consecutive, Orthogonal };
/// What is recomputed for the backward pass. Pipeline: everything that does not enter or leave a
/// stage, except in the last stage; All: the same, also in the last stage; NormOnly: normalizations
/// and the element-wise ops after them; Standard: everything except the values at a few points of
/// each stage. Default: Pipeline for a pipeline over several devices under the IPU's rules, else
/// None.
enum class Recomputation : std::uint8_t { Default, None, Pipeline, Standard, NormOnly, All };

/// What a trace keeps of every value that a kernel, a copy or a sum writes: nothing, a hash of its
/// bits, or all its elements. With either, kernels run one by one.
enum class TraceValues : std::uint8_t { None, Hashes, All };

using program::OverlapMode;
using schedule::SyncPattern;

/// The name of an enumeration and the names of its values, as text has them.
template <class E>
struct EnumText;
template <>
struct EnumText<OutputMode> {
  static constexpr std::string_view kType = "OutputMode";
  static constexpr std::array<std::string_view, 5> kNames = {
      "All", "EveryN", "Final", "Sum", "Default"};
};
template <>
struct EnumText<Reduction> {
  static constexpr std::string_view kType = "ReductionType";
  static constexpr std::array<std::string_view, 2> kNames = {"Mean", "Sum"};
};
template <>
struct EnumText<MeanReductionStrategy> {
  static constexpr std::string_view kType = "MeanReductionStrategy";
  static constexpr std::array<std::string_view, 3> kNames = {"Running", "Post", "PostAndLoss"};
};
template <>
struct EnumText<GradientTensorTrackingMethod> {
  static constexpr std::string_view kType = "GradientTensorTrackingMethod";
  static constexpr std::array<std::string_view, 3> kNames = {"AllNonViewChangingGradientTensors",
                                                             "ConvAndMatmulGradients",
                                                             "GradientsOfUserSpecifiedTensors"};
};
template <>
struct EnumText<ConnectionType> {
  static constexpr std::string_view kType = "ConnectionType";
  static constexpr std::array<std::string_view, 3> kNames = {"Always", "OnDemand", "Never"};
};
template <>
struct EnumText<TraceValues> {
  static constexpr std::string_view kType = "TraceValues";
  static constexpr std::array<std::string_view, 3> kNames = {"None", "Hashes", "All"};
};
template <>
struct EnumText<SyntheticDataMode> {
  static constexpr std::string_view kType = "SyntheticDataMode";
  static constexpr std::array<std::string_view, 4> kNames = {
      "Off", "Zeros", "RandomNormal", "RandomUniform"};
};
template <>
struct EnumText<CommGroupType> {
  static constexpr std::string_view kType = "CommGroupType";
  static constexpr std::array<std::string_view, 3> kNames = {"All", "Consecutive", "Orthogonal"};
};
template <>
struct EnumText<Recomputation> {
  static constexpr std::string_view kType = "Recomputation";
  static constexpr std::array<std::string_view, 6> kNames = {
      "Default", "None", "Pipeline", "Standard", "NormOnly", "All"};
};

template <>
struct EnumText<OverlapMode> {
  static constexpr std::string_view kType = "OverlapMode";
  static constexpr std::array<std::string_view, 3> kNames = {
      "NoOverlap", "OverlapAccumulationLoop", "OverlapDeviceIterationLoop"};
};
template <>
struct EnumText<SyncPattern> {
  static constexpr std::string_view kType = "SyncPattern";
  static constexpr std::array<std::string_view, 3> kNames = {
      "Full", "SinglePipeline", "ReplicaAndLadder"};
};
template <>
struct EnumText<HalfFloatCasting> {
  static constexpr std::string_view kType = "HalfFloatCasting";
  static constexpr std::array<std::string_view, 3> kNames = {
      "FloatDowncastToHalf", "HalfUpcastToFloat", "Default"};
};

template <>
struct EnumText<VirtualGraphMode> {
  static constexpr std::string_view kType = "VirtualGraphMode";
  static constexpr std::array<std::string_view, 4> kNames = {
      "Off", "Manual", "Auto", "ExecutionPhases"};
};

template <>
struct EnumText<Liveness> {
  static constexpr std::string_view kType = "Liveness";
  static constexpr std::array<std::string_view, 4> kNames = {
      "AlwaysLive", "OffChipAfterFwd", "OffChipAfterFwdNoOverlap", "OffChipAfterEachPhase"};
};
template <>
struct EnumText<IoSchedule> {
  static constexpr std::string_view kType = "IoSchedule";
  static constexpr std::array<std::string_view, 3> kNames = {"Automatic", "Preload", "OnDemand"};
};
template <>
struct EnumText<PhaseSchedule> {
  static constexpr std::string_view kType = "PhaseSchedule";
  static constexpr std::array<std::string_view, 4> kNames = {
      "Automatic", "Interleaving", "Batch", "BatchClusteredIO"};
};
template <>
struct EnumText<PhaseOrder> {
  static constexpr std::string_view kType = "PhaseOrder";
  static constexpr std::array<std::string_view, 3> kNames = {
      "Automatic", "PhaseMajor", "MicroBatchMajor"};
};

template <class E>
requires requires {
  EnumText<E>::kNames;
}
std::string_view name(E value) {
  return EnumText<E>::kNames[static_cast<std::size_t>(value)];
}

/// A tensor inside the model that a call returns like an output.
struct Anchor {
  std::string shortName;                  ///< how the caller asks for it
  std::string longName;                   ///< the tensor in the graph
  OutputMode mode = OutputMode::Default;  ///< Default: the mode of the model's outputs
  std::int32_t period = 1;
};

/// Read by the code that cuts a call into micro-batches and joins the results (batch_layout.h).
struct BatchOptions {
  std::int32_t deviceIterations = 1;
  std::int32_t replicationFactor = 1;
  std::int32_t inputGroupSize = 1;  ///< replicas that get the same input
  CommGroupType inputGroupType = CommGroupType::Consecutive;
  OutputMode outputMode = OutputMode::Default;
  std::int32_t outputPeriod = 1;
  std::vector<Anchor> anchors;
  SyntheticDataMode syntheticData = SyntheticDataMode::Off;
};

/// Read by the session when it makes devices.
struct DeviceOptions {
  std::string names;  ///< empty: not given
  std::int32_t threads = 1;
  std::size_t memoryBytes = 0;                     ///< 0: no limit
  std::map<std::int32_t, double> availableMemory;  ///< for one op, by device; empty: not given
  ConnectionType connection = ConnectionType::Always;
  std::optional<bool> ipuModel;              ///< not set: the environment decides
  std::vector<std::int32_t> deviceIds;       ///< numbers on the machine; empty: any
  std::int32_t selectedDevices = 0;          ///< 0: as many as the model needs
  std::int32_t selectedPerReplica = 1;       ///< devices per replica
  std::optional<OverlapMode> inputOverlap;   ///< not set: as much as possible
  std::optional<OverlapMode> outputOverlap;  ///< not set: as much as possible
  bool barriers = false;
  SyncPattern syncPattern = SyncPattern::Full;  ///< which devices meet at barriers
  bool autoRoundNumDevices = false;
  std::optional<bool> enforceIpuRules;             ///< not set: on for the IPU model only
  double stallTimeout = 300;                       ///< seconds without progress; 0: wait for ever
  std::string tuningTable;                         ///< empty: rules alone
  std::string remotePath;                          ///< empty: in memory
  std::size_t remoteBytes = 0;                     ///< 0: no limit
  double remoteBandwidth = 0;                      ///< bytes per second; 0: no limit
  std::size_t undoBytes = std::size_t{64} << 20U;  ///< limit for copies of the state
  std::shared_ptr<const void> hold;                ///< keeps acquired devices; not a setting
};

/// Read when a graph is placed, lowered and proven.
struct CompileOptions {
  Strategy strategy = PipelinedExecution();
  Recomputation recomputation = Recomputation::Default;
  bool continuousWeightUpdates = false;
  bool fusion = true;
  bool constantWeights = false;
  bool foldBatchNorm = false;
  std::optional<bool> verifyPrograms;   ///< not set: programs of moderate size
  std::string dumpDirectory;            ///< empty: no dumps
  std::optional<bool> showProgressBar;  ///< not set: on a terminal
  // For graphs made by a Builder:
  bool enablePipelining = false;
  VirtualGraphMode virtualGraphMode = VirtualGraphMode::Off;
  std::vector<double> virtualGraphSplitRatios;  ///< empty: equal parts
  std::int32_t devicesPerReplica = 1;           ///< for Auto
  std::int32_t executionPhases = 1;             ///< for ExecutionPhases
  std::int32_t phaseGroups = 1;                 ///< groups of devices that take turns
  /// Folder of the cache of executables; empty: none; not set: SLUICE_CACHE_DIR decides.
  std::optional<std::string> cacheFolder;
  std::size_t cacheBytes = std::size_t{1} << 30U;  ///< limit for the files of the cache
};

/// Read by a model when a call fails with a RecoverableError.
struct RecoveryOptions {
  std::int32_t retries = 0;  ///< of a call; 0: none
  double backoff = 0;      ///< seconds before the first retry; each further one waits twice as long
  std::int32_t every = 1;  ///< calls between two copies of the state; 0: no copies
};

/// Read by the model around its state: seeds, buffers, checks.
struct StateOptions {
  std::optional<std::uint64_t> randomSeed;
  bool broadcastBuffers = true;
  std::vector<std::string> updatableNamedBuffers;
  bool relaxOptimizerAttributesChecks = false;
  bool stableNorm = false;
  bool rearrangeAnchorsOnHost = false;
};

/// Read by logs and reports.
struct ReportOptions {
  std::string modelName;  ///< empty: training or inference
  std::int32_t maxRepeatLogs = 4;
  bool disableModuleNamescope = false;
  std::string logDir = ".";
  bool logCycleCount = false;
  std::string profileDir;  ///< empty: no profile
  TraceValues traceValues = TraceValues::None;
  bool traceKernels = false;
};

}  // namespace sluice

#pragma GCC visibility pop
