// Options: how a model is run. Setters return the object, so they chain:
//   Options().deviceIterations(10).threads(2)
// Every setter checks its argument; if it throws InvalidArgument, the object is unchanged. A model
// freezes the options that it is given: their setters then throw, but copies can be changed. Values
// also come from SLUICE_DEFAULT_OPTIONS (when the object is made) and from files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/api/option_groups.h"
#include "sluice/api/option_types.h"

#pragma GCC visibility push(default)

namespace sluice {

class Options : public Freezable {
 public:
  /// Applies SLUICE_DEFAULT_OPTIONS; throws ConfigFileError if it cannot be read.
  Options();
  /// The options as if no environment variable were set.
  static Options defaults() { return Options(Plain()); }

  /// Rounds per call: weight updates when training, micro-batches for inference.
  Options& deviceIterations(std::int64_t count);
  /// Copies of the model that work on different data.
  Options& replicationFactor(std::int64_t count);
  /// Groups of `size` replicas get the same input. `type` must not be All.
  Options& inputReplicaGrouping(std::int64_t size, CommGroupType type);
  /// EveryN needs a positive period; other modes ignore it.
  Options& outputMode(OutputMode mode, std::int64_t period = 1);
  /// Makes calls return an inner tensor under a short name, which must be new. The long name is one
  /// of Model::getTensorNames(). Mode Default stands for the mode and period of the outputs.
  Options& anchorTensor(std::string shortName,
                        std::string longName,
                        OutputMode mode = OutputMode::Default,
                        std::int64_t period = 1);
  Options& syntheticDataMode(SyntheticDataMode mode) { return set(batch_.syntheticData, mode); }
  /// True stands for RandomNormal, false for Off.
  Options& enableSyntheticData(bool on);

  /// How blocks are grouped into stages, and how the stages take turns.
  Options& setExecutionStrategy(Strategy strategy) {
    return set(compile_.strategy, std::move(strategy));
  }
  Options& recomputation(Recomputation type) { return set(compile_.recomputation, type); }
  /// Pipelined training updates weights while later micro-batches are under way (stale weights).
  Options& continuousWeightUpdates(bool on) { return set(compile_.continuousWeightUpdates, on); }
  /// Fuses chains of element-wise ops; on by default. Changes no result.
  Options& fusion(bool on) { return set(compile_.fusion, on); }
  /// The weights and buffers of an inference model become constants of its programs, except for
  /// updatableNamedBuffers, buffers that replicas have apart (broadcastBuffers) and what the model
  /// itself writes. If their values have changed at a call, the model is compiled again. What
  /// depends on them alone is computed once if the result has at most 1 MiB and is not larger than
  /// what it is computed from, which may round in another way. Off by default.
  Options& constantWeights(bool on) { return set(compile_.constantWeights, on); }
  /// Inference batch norms become a part of the convolutions and linear layers before them, whose
  /// weights are scaled for this in float64 and rounded once. Results are other roundings of the
  /// same numbers, the same bits under every strategy. Needs constantWeights. Off by default.
  Options& foldBatchNorm(bool on) { return set(compile_.foldBatchNorm, on); }
  /// Proves every program before its first step: its order, that it has no races, and that every
  /// read sees its value. If not set, proves programs of at most kProvenTasks tasks, for which this
  /// takes less than 5 % of the compilation time.
  Options& verifyPrograms(std::optional<bool> on) { return set(compile_.verifyPrograms, on); }
  /// Writes the graph after every pass, and the program, into this folder. A relative path is below
  /// logDir; empty: nothing is written.
  Options& dumpDirectory(std::string path) { return set(compile_.dumpDirectory, std::move(path)); }
  /// Lets the stages of a Builder's graph work on different micro-batches at the same time. This
  /// needs a virtualGraphMode other than Off and more than one device. If false, there is one
  /// micro-batch at a time.
  Options& enablePipelining(bool on) { return set(compile_.enablePipelining, on); }
  /// How the ops of a Builder's graph get their devices.
  Options& virtualGraphMode(VirtualGraphMode mode) { return set(compile_.virtualGraphMode, mode); }
  /// The devices' shares of the work in VirtualGraphMode::Auto, each between 0 and 1 and adding up
  /// to 1; empty: equal shares.
  Options& virtualGraphSplitRatios(std::vector<double> ratios);
  /// The number of devices among which VirtualGraphMode::Auto divides a Builder's graph. Each
  /// device gets a part, and a model refuses more devices than it has parts for. Other modes refuse
  /// more than 1.
  Options& devicesPerReplica(std::int64_t count);
  /// The number of phases in VirtualGraphMode::ExecutionPhases, and of the groups of devices that
  /// take turns to run them: 1 (serial) or 2 (parallel).
  Options& executionPhases(std::int64_t phases, std::int64_t groups = 1);
  /// Keeps compiled programs in this folder, and takes them from it instead of compiling when
  /// graph, options, devices and version are the same. Any number of processes may share it; the
  /// files that were used least recently are removed when it has more than `size` bytes. Not set:
  /// the folder is that of SLUICE_CACHE_DIR, if any; empty: no cache.
  Options& enableExecutableCaching(std::optional<std::string> folder,
                                   std::string_view size = "1GiB");
  /// If a call fails with a RecoverableError, the model resets its devices, restores its state and
  /// makes the call again, up to `retries` times; it waits `backoff` seconds before the first retry
  /// and twice as long before each further one. A training model copies its state before every
  /// `everyN`th call, and repeats the calls since then. With an `everyN` of 0 it keeps no copy: a
  /// RecoverableError reaches its caller, and `fit` goes back to its newest checkpoint. Results
  /// have the bits of an undisturbed run. Calls on queues are not repeated. 0 retries: none.
  Options& recovery(std::int64_t retries, double backoff = 0.1, std::int64_t everyN = 1);
  /// If not set, the bar is shown if stderr is a terminal.
  Options& showCompilationProgressBar(std::optional<bool> on) {
    return set(compile_.showProgressBar, on);
  }

  /// The devices that the model runs on, by the names of their kinds: "cpu", "far*3", "cpu,far"
  /// (registry.h defines the form). If empty, SLUICE_DEVICE decides, and without it "cpu" is used.
  /// Throws InvalidArgument for devices that do not exist.
  Options& device(std::string_view names);
  /// Threads per device. Results do not depend on it.
  Options& threads(std::int64_t count);
  /// Memory limit per device: a number of bytes, or text such as "256MiB" or "1.5GB"; 0: no limit.
  Options& memoryPerDevice(std::string_view size);
  Options& memoryPerDevice(std::size_t bytes) { return set(device_.memoryBytes, bytes); }
  /// The share of a device's memory that one convolution, matrix product or indexing op may take,
  /// by device: {{"IPU0", 0.5}}. It is a hint: a model warns if the share is too small for an op.
  /// Throws InvalidArgument for keys of another form and shares that are not between 0 and 1.
  Options& setAvailableMemoryProportion(const std::map<std::string, double>& proportions);
  /// Sets where remote memory is, which holds what does not fit on the devices: in files whose
  /// names begin with `path`, or in the host's memory if the path is empty. It has at most this
  /// many bytes per replica (0: no limit).
  Options& remoteMemory(std::string path, std::string_view size);
  Options& remoteMemory(std::string path, std::size_t bytes = 0);
  /// The most bytes per second that a device fetches from remote memory, and that it flushes to it;
  /// 0: no limit. For studies.
  Options& remoteBandwidth(double bytesPerSecond);
  /// How much host memory a call may use to copy the state that it writes (weights, optimizer state
  /// and buffers of all replicas): a number of bytes or text, 64 MiB by default. With a copy, a
  /// call that fails or is cancelled leaves the state as it was before the call. Without a copy it
  /// does so only if it had not begun to write. Otherwise the state is torn, and the model refuses
  /// to continue until a state is loaded.
  Options& undoMemory(std::string_view size);
  Options& undoMemory(std::size_t bytes) { return set(device_.undoBytes, bytes); }
  /// With Never, the model compiles, but running it is an error.
  Options& connectionType(ConnectionType type) { return set(device_.connection, type); }
  /// For compiling without a device: sets connectionType to Never and, unless devices were named,
  /// the device to the simulated IPU of this version, 1, 2 or 21. Model::simulateStep says how long
  /// a step would take.
  Options& useOfflineTarget(std::int64_t version = 2);
  /// Runs the model on simulated IPUs ("sim@ipu2"): results are the CPU's, times are virtual. Not
  /// called: SLUICE_IPU_MODEL=1 in the environment does the same, unless devices are named.
  Options& useIpuModel(bool on) { return set(device_.ipuModel, std::optional(on)); }
  /// The model uses exactly these devices of the machine: those of its first replica, then those of
  /// the next. Too few are an error; more than it needs are a warning. Empty: any devices.
  Options& useDeviceIds(std::vector<std::int64_t> ids);
  Options& useDeviceId(std::optional<std::int64_t> id);
  /// Sets replicationFactor to the number of replicas that fit on `devices` devices if each takes
  /// `perReplica`. Throws InvalidArgument unless `devices` is a multiple of `perReplica`.
  Options& autoSelectDevices(std::int64_t devices, std::int64_t perReplica);
  /// The model uses as many devices as it needs.
  Options& autoSelectDevices(std::nullopt_t none);
  /// The same, for exactly these devices.
  Options& selectDevices(std::vector<std::int64_t> ids, std::int64_t perReplica);
  /// Keeps acquired devices while these options, their copies or models made with them live; null:
  /// none. MultiDevice::applyTo calls it.
  Options& holdDevices(std::shared_ptr<const void> hold) {
    return set(device_.hold, std::move(hold));
  }
  /// Ends the hold, also if the options are frozen.
  void endHold() { device_.hold.reset(); }
  /// Says when inputs, or outputs, are copied while their device computes. If not set, this happens
  /// whenever data and memory allow it. Under the IPU's rules, overlap needs
  /// tensorLocations.numIOTiles.
  Options& inputOverlap(std::optional<OverlapMode> mode) { return set(device_.inputOverlap, mode); }
  Options& outputOverlap(std::optional<OverlapMode> mode) {
    return set(device_.outputOverlap, mode);
  }
  /// Makes devices meet at barriers before they exchange data, as on an IPU, so that devices that
  /// need no data wait as well. This changes no result and only costs time; it is for studies. Off
  /// by default.
  Options& barriers(bool on) { return set(device_.barriers, on); }
  /// Which devices meet at the barriers.
  Options& syncPattern(SyncPattern pattern) { return set(device_.syncPattern, pattern); }
  /// Reserves the next power of two where the number of devices must be a power of two.
  Options& autoRoundNumDevices(bool on) { return set(device_.autoRoundNumDevices, on); }
  /// Makes violations of the IPU's own limits errors; not set: on for the IPU model, off otherwise.
  Options& enforceIpuRules(std::optional<bool> on) { return set(device_.enforceIpuRules, on); }
  /// Seconds without progress after which a run is stopped; 0: never.
  Options& stallTimeout(double seconds);
  /// The entries of this file replace what kernels choose by their rules (see `sluice tune`). The
  /// file may consist of comments only, as `tune` writes it if nothing is faster, but it must not
  /// be empty.
  Options& tuningTable(std::string path) { return set(device_.tuningTable, std::move(path)); }

  /// The seed of initial values and of every random op; not set: the module's own seed.
  Options& randomSeed(std::optional<std::uint64_t> seed) { return set(state_.randomSeed, seed); }
  /// If false, each replica has its own buffers.
  Options& broadcastBuffers(bool on) { return set(state_.broadcastBuffers, on); }

  /// These buffers of the module may be set between calls (Parameter::setValue) and take effect
  /// with Model::copyNamedBuffersToDevice. Throws InvalidArgument for an empty name.
  Options& updatableNamedBuffers(std::vector<std::string> names);
  /// If true, importTorch names the attributes of a foreign optimizer that ours does not know in
  /// the debug log instead of in a warning.
  Options& relaxOptimizerAttributesChecks(bool on) {
    return set(state_.relaxOptimizerAttributesChecks, on);
  }
  /// Norms subtract the mean before they square. They always do, whatever this says.
  Options& enableStableNorm(bool on) { return set(state_.stableNorm, on); }
  /// Whether outputs get their final layout on the host. They already leave the devices in it.
  Options& rearrangeAnchorsOnHost(bool on) { return set(state_.rearrangeAnchorsOnHost, on); }

  /// What logs and reports call the model; empty: training or inference.
  Options& modelName(std::string name) { return set(report_.modelName, std::move(name)); }
  /// The models of one module log the same warning at most this many times.
  Options& maxRepeatLogs(std::int64_t count);
  /// Ops are named without the path of their module.
  Options& disableModuleNamescope(bool on) { return set(report_.disableModuleNamescope, on); }
  /// The folder that relative paths of profiles and dumps start from.
  Options& logDir(std::string folder);
  /// Counts the cycles of every step: see Model::cycleCount.
  Options& logCycleCount(bool on) { return set(report_.logCycleCount, on); }
  /// Traces the first steps into <folder>/<modelName> (run.slt, report.html, trace.json and
  /// summary.txt) and measures the latencies of every step; empty: no profiling.
  Options& enableProfiling(std::string folder) {
    return set(report_.profileDir, std::move(folder));
  }
  /// Keeps hashes of all written values, or the values, in the traces of enableProfiling; `sluice
  /// diff` finds the first value in which two such traces differ.
  Options& traceValues(TraceValues kept) { return set(report_.traceValues, kept); }
  /// The traces of enableProfiling also have the times of the kernels inside each task. Kernels
  /// then run one by one, with the same bits: a step takes longer. Not for simulated devices.
  Options& traceKernels(bool on) { return set(report_.traceKernels, on); }

  std::int32_t deviceIterations() const { return batch_.deviceIterations; }
  std::int32_t replicationFactor() const { return batch_.replicationFactor; }
  /// The replicas of all processes.
  std::int32_t allReplicas() const;
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

  // All values, grouped by the code that reads them.
  const BatchOptions& batch() const { return batch_; }
  const DeviceOptions& device() const { return device_; }
  const CompileOptions& compile() const { return compile_; }
  const StateOptions& state() const { return state_; }
  const ReportOptions& report() const { return report_; }
  const RecoveryOptions& recovery() const { return recovery_; }

  TrainingOptions training;
  PrecisionOptions precision;
  JitOptions jit;
  DistributedOptions distributed;
  TensorLocationOptions tensorLocations;
  /// Sets options by PopART's names; it is PopTorch's group _Popart.
  PopartOptions popart() { return PopartOptions(*this); }

  /// Calls any setter by name, with its arguments as in a file: set("outputMode", "EveryN, 4").
  /// Throws InvalidArgument for arguments that do not fit, and for an unknown name; the message
  /// then proposes similar names.
  Options& set(std::string_view setter, std::string_view arguments);

  /// Applies one setter call per line, `training.gradientAccumulation(8)`; blank lines and comments
  /// (#) are skipped. Throws ConfigFileError with the file, line number and text, and then leaves
  /// the options unchanged.
  Options& loadFromFile(const std::string& path);
  /// Applies a JSON object of setters and arguments: {"threads": 2, "outputMode": ["EveryN", 4]}.
  /// `source` is its name in messages. Throws ConfigFileError, and then leaves the options
  /// unchanged.
  Options& loadFromJson(std::string_view text, std::string_view source);
  /// A line such as "threads: 2" for every value that is still the one from SLUICE_DEFAULT_OPTIONS.
  std::vector<std::string> fromEnvironment() const;

  /// Setters of this object and its groups throw from now on.
  void freeze() const;
  /// A copy that can be changed.
  Options clone() const { return *this; }

  /// Every value on a line of its own: the setter's name and its arguments.
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
  RecoveryOptions recovery_;
  std::vector<std::string> environment_;  // lines as str() has them
};

/// "256MiB", "1.5GB", "4096", "64 KiB" in bytes; throws InvalidArgument.
std::size_t parseBytes(std::string_view text);

}  // namespace sluice

#pragma GCC visibility pop
