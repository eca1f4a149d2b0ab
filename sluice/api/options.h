// Options: how a model is run. Setters return the object, so they chain:
//   Options().deviceIterations(10).threads(2)
// Every setter checks its argument and throws InvalidArgument, leaving the object as it was. A
// model freezes the options it is given: setters then throw; copies can be changed. Values also
// come from SLUICE_DEFAULT_OPTIONS (when the object is made) and from files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/api/option_groups.h"
#include "sluice/api/option_types.h"
#include "sluice/api/tensor_locations.h"

namespace sluice {

class Options : public Freezable {
 public:
  /// Applies SLUICE_DEFAULT_OPTIONS; throws ConfigFileError if it cannot be read.
  Options();
  /// As if no environment variable were set.
  static Options defaults() { return Options(Plain()); }

  /// Rounds per call: weight updates when training, micro-batches for inference.
  Options& deviceIterations(std::int64_t count);
  /// Copies of the model that work on different data.
  Options& replicationFactor(std::int64_t count);
  /// Groups of `size` replicas get the same input. `type` must not be All.
  Options& inputReplicaGrouping(std::int64_t size, CommGroupType type);
  /// EveryN needs a positive period; other modes ignore it.
  Options& outputMode(OutputMode mode, std::int64_t period = 1);
  /// Brings an inner tensor back under a short name, which must be new. The long name is one of
  /// Model::getTensorNames(). Default: with the mode and period of the outputs.
  Options& anchorTensor(std::string shortName,
                        std::string longName,
                        OutputMode mode = OutputMode::Default,
                        std::int64_t period = 1);
  Options& syntheticDataMode(SyntheticDataMode mode) { return set(batch_.syntheticData, mode); }
  /// True: RandomNormal, false: Off.
  Options& enableSyntheticData(bool on);

  /// How blocks become stages and stages take turns.
  Options& setExecutionStrategy(Strategy strategy) {
    return set(compile_.strategy, std::move(strategy));
  }
  Options& recomputation(Recomputation type) { return set(compile_.recomputation, type); }
  /// Pipelined training updates weights while later micro-batches are under way (stale weights).
  Options& continuousWeightUpdates(bool on) { return set(compile_.continuousWeightUpdates, on); }
  /// Value-preserving fusion of element-wise chains; on by default. Changes no result.
  Options& fusion(bool on) { return set(compile_.fusion, on); }
  /// Prove every program before its first step (order, races, every read). Not set: those of at
  /// most kProvenTasks tasks, where it costs under 5 % of the compilation.
  Options& verifyPrograms(std::optional<bool> on) { return set(compile_.verifyPrograms, on); }
  /// Writes the graph after every pass and the program into this folder (below logDir, if it is a
  /// relative one); empty: no.
  Options& dumpDirectory(std::string path) { return set(compile_.dumpDirectory, std::move(path)); }
  /// Stages of a Builder's graph work on different micro-batches at the same time; needs a
  /// virtualGraphMode other than Off and more than one device. Off: one micro-batch at a time.
  Options& enablePipelining(bool on) { return set(compile_.enablePipelining, on); }
  /// How the ops of a Builder's graph get their devices.
  Options& virtualGraphMode(VirtualGraphMode mode) { return set(compile_.virtualGraphMode, mode); }
  /// Shares of the devices in VirtualGraphMode::Auto, each between 0 and 1, 1 in all; empty: equal.
  Options& virtualGraphSplitRatios(std::vector<double> ratios);
  /// Devices that VirtualGraphMode::Auto cuts a Builder's graph for, all of which get a part; a
  /// model refuses more than can be filled, and any other mode more than 1.
  Options& devicesPerReplica(std::int64_t count);
  /// Phases of VirtualGraphMode::ExecutionPhases, and the groups of devices that take turns to run
  /// them: 1 (serial) or 2 (parallel).
  Options& executionPhases(std::int64_t phases, std::int64_t groups = 1);
  /// Not set: where stderr is a terminal.
  Options& showCompilationProgressBar(std::optional<bool> on) {
    return set(compile_.showProgressBar, on);
  }

  /// Which devices the model runs on, by names of kinds: "cpu", "far*3", "cpu,far" (registry.h has
  /// the form). Empty: what SLUICE_DEVICE says, else "cpu". Throws InvalidArgument for devices that
  /// are not there.
  Options& device(std::string_view names);
  /// Threads of a device. Results do not depend on it.
  Options& threads(std::int64_t count);
  /// Byte budget of a device: a number of bytes or text such as "256MiB", "1.5GB"; 0: no limit.
  Options& memoryPerDevice(std::string_view size);
  Options& memoryPerDevice(std::size_t bytes) { return set(device_.memoryBytes, bytes); }
  /// The share of a device's memory that one convolution, matrix product or indexing op may take,
  /// by device: {{"IPU0", 0.5}}. A hint: a model warns where it is too little. Throws
  /// InvalidArgument for keys of another form and shares that are not between 0 and 1.
  Options& setAvailableMemoryProportion(const std::map<std::string, double>& proportions);
  /// Where remote memory, which takes what the devices have no room for, is: in files whose names
  /// begin with `path` (empty: in the memory of the host), of at most this many bytes per replica
  /// (0: no limit).
  Options& remoteMemory(std::string path, std::string_view size);
  Options& remoteMemory(std::string path, std::size_t bytes = 0);
  /// Bytes per second that a device fetches, and flushes, at most; 0: no limit. For studies.
  Options& remoteBandwidth(double bytesPerSecond);
  /// How much memory of the host a call may take for a copy of the state that it writes (weights,
  /// optimizer state, buffers, of all replicas): 64 MiB unless set; a number of bytes or text. With
  /// a copy, a call that fails or is cancelled leaves the state as it was before the call. Without
  /// one it does so, too, unless it had begun to write; then the state is torn, and the model
  /// refuses to go on until a state is loaded.
  Options& undoMemory(std::string_view size);
  Options& undoMemory(std::size_t bytes) { return set(device_.undoBytes, bytes); }
  /// Never: the model compiles, and running it is an error.
  Options& connectionType(ConnectionType type) { return set(device_.connection, type); }
  /// For compiling where there is no device: connectionType Never. The version is that of an IPU,
  /// 1, 2 or 21; devices of this build have none, so it decides nothing else.
  Options& useOfflineTarget(std::int64_t version = 2);
  /// The devices of the model are exactly these of the machine: those of its first replica, then
  /// of the next. Too few are an error, more than it needs a warning; empty: any.
  Options& useDeviceIds(std::vector<std::int64_t> ids);
  Options& useDeviceId(std::optional<std::int64_t> id);
  /// As many replicas as `devices` hold if each takes `perReplica`: sets replicationFactor. Throws
  /// InvalidArgument unless the first is a multiple of the second.
  Options& autoSelectDevices(std::int64_t devices, std::int64_t perReplica);
  /// As many as the model needs.
  Options& autoSelectDevices(std::nullopt_t none);
  /// The same for exactly these devices.
  Options& selectDevices(std::vector<std::int64_t> ids, std::int64_t perReplica);
  /// Where inputs, and outputs, move while their device computes. Not set: wherever data and memory
  /// allow it. Under the IPU's rules overlap needs tensorLocations.numIOTiles.
  Options& inputOverlap(std::optional<OverlapMode> mode) { return set(device_.inputOverlap, mode); }
  Options& outputOverlap(std::optional<OverlapMode> mode) {
    return set(device_.outputOverlap, mode);
  }
  /// Devices meet at barriers before they exchange data, as on an IPU, and not only those wait that
  /// need it. Changes no result and only costs time: for studies. Off by default.
  Options& barriers(bool on) { return set(device_.barriers, on); }
  /// Which devices meet at the barriers.
  Options& syncPattern(SyncPattern pattern) { return set(device_.syncPattern, pattern); }
  /// Where device counts must be powers of two, reserves the next one.
  Options& autoRoundNumDevices(bool on) { return set(device_.autoRoundNumDevices, on); }
  /// The IPU's own limits as errors; not set: on for the IPU model, off elsewhere.
  Options& enforceIpuRules(std::optional<bool> on) { return set(device_.enforceIpuRules, on); }
  /// Seconds without progress after which a run is stopped; 0: never.
  Options& stallTimeout(double seconds);
  /// Entries of this file replace those of the shipped tuning table (see `sluice tune`). It may
  /// have comments alone, which is what `tune` writes if nothing is quicker, but it may not be
  /// empty.
  Options& tuningTable(std::string path) { return set(device_.tuningTable, std::move(path)); }

  /// Seed of initial values and of every random op; the module's own seed when not set.
  Options& randomSeed(std::optional<std::uint64_t> seed) { return set(state_.randomSeed, seed); }
  /// False: each replica has its own buffers.
  Options& broadcastBuffers(bool on) { return set(state_.broadcastBuffers, on); }

  /// These buffers of the module may be set between calls (Parameter::setValue) and take effect
  /// with Model::copyNamedBuffersToDevice. Throws InvalidArgument for an empty name.
  Options& updatableNamedBuffers(std::vector<std::string> names);
  /// Attributes of a foreign optimizer that ours does not know (importTorch) are named in the debug
  /// log instead of in a warning.
  Options& relaxOptimizerAttributesChecks(bool on) {
    return set(state_.relaxOptimizerAttributesChecks, on);
  }
  /// Norms subtract the mean before they square. They always do: kernels know no other way.
  Options& enableStableNorm(bool on) { return set(state_.stableNorm, on); }
  /// Whether outputs get their layout on the host; they leave the devices in their final one.
  Options& rearrangeAnchorsOnHost(bool on) { return set(state_.rearrangeAnchorsOnHost, on); }

  /// What logs and reports call the model; empty: training or inference.
  Options& modelName(std::string name) { return set(report_.modelName, std::move(name)); }
  /// The same warning is logged this often at most by the models of one module.
  Options& maxRepeatLogs(std::int64_t count);
  /// Ops are named without the path of their module.
  Options& disableModuleNamescope(bool on) { return set(report_.disableModuleNamescope, on); }
  /// Folder below which the relative folders of profiles and dumps are.
  Options& logDir(std::string folder);
  /// Counts the cycles of every step: see Model::cycleCount.
  Options& logCycleCount(bool on) { return set(report_.logCycleCount, on); }
  /// The first steps are traced into <folder>/<modelName>/trace.json and the latencies of every
  /// step are measured; empty: no.
  Options& enableProfiling(std::string folder) {
    return set(report_.profileDir, std::move(folder));
  }

  std::int32_t deviceIterations() const { return batch_.deviceIterations; }
  std::int32_t replicationFactor() const { return batch_.replicationFactor; }
  OutputMode outputMode() const { return batch_.outputMode; }
  std::int32_t outputPeriod() const { return batch_.outputPeriod; }
  std::optional<std::uint64_t> randomSeed() const { return state_.randomSeed; }
  std::int32_t threads() const { return device_.threads; }
  std::size_t memoryPerDevice() const { return device_.memoryBytes; }
  bool fusion() const { return compile_.fusion; }
  std::optional<bool> verifyPrograms() const { return compile_.verifyPrograms; }
  const std::string& tuningTable() const { return device_.tuningTable; }
  const std::string& dumpDirectory() const { return compile_.dumpDirectory; }
  const Strategy& executionStrategy() const { return compile_.strategy; }

  // All values, by who reads them.
  const BatchOptions& batch() const { return batch_; }
  const DeviceOptions& device() const { return device_; }
  const CompileOptions& compile() const { return compile_; }
  const StateOptions& state() const { return state_; }
  const ReportOptions& report() const { return report_; }

  TrainingOptions training;
  PrecisionOptions precision;
  JitOptions jit;
  DistributedOptions distributed;
  TensorLocationOptions tensorLocations;

  /// Any setter by its name, with its arguments as a file has them: set("outputMode", "EveryN, 4").
  /// Throws InvalidArgument for an unknown name or arguments that do not fit.
  Options& set(std::string_view setter, std::string_view arguments);

  /// Applies one setter call per line, `training.gradientAccumulation(8)`; blank lines and comments
  /// (#) are skipped. Throws ConfigFileError with file, line number and text; the options are then
  /// as before.
  Options& loadFromFile(const std::string& path);
  /// Applies a JSON object of setters and arguments: {"threads": 2, "outputMode": ["EveryN", 4]}.
  /// `source` is what messages call it. Throws ConfigFileError; the options are then as before.
  Options& loadFromJson(std::string_view text, std::string_view source);
  /// "threads: 2" for every value that still is what SLUICE_DEFAULT_OPTIONS made it.
  std::vector<std::string> fromEnvironment() const;

  /// Setters of this object and its groups throw from now on.
  void freeze() const;
  /// A copy that can be changed.
  Options clone() const { return *this; }

  /// Every value, a line each: the setter's name and its arguments.
  std::string str() const;

 private:
  struct Plain {};
  explicit Options(Plain /*tag*/) {}
  template <class T>
  Options& set(T& field, T value) {
    requireUnfrozen();
    field = std::move(value);
    return *this;
  }

  BatchOptions batch_;
  DeviceOptions device_;
  CompileOptions compile_;
  StateOptions state_;
  ReportOptions report_;
  std::vector<std::string> environment_;  // lines as str() has them
};

/// "256MiB", "1.5GB", "4096", "64 KiB" in bytes; throws InvalidArgument.
std::size_t parseBytes(std::string_view text);

}  // namespace sluice
