// Strategies: how the blocks of an annotated model become stages, and in which order the stages
// run. A strategy is plain data in the options; resolveStages combines it with the blocks of a
// traced model and returns the stages that placement uses.
//
//   PipelinedExecution{Stage("B1").device(0), "B2", {"B3", "B4"}}
//   PipelinedExecution{"B1", ConcurrentStages("B2", "B3"), "B4"}
//   PipelinedExecution(AutoStage::AutoIncrement).schedule("1f1b")
//   PipelinedExecution::automatic(4)    // the model is cut by the work of its ops
//   SerialPhasedExecution{Phase("B1"), Phase("B2", "B3")}.setTensorsLiveness(Liveness::AlwaysLive)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/ir/value.h"
#include "sluice/parallel/stage.h"
#include "sluice/schedule/pipeline.h"

#pragma GCC visibility push(default)

namespace sluice::ir {

// Tensor locations: which classes of tensors a model keeps on its devices and which in remote
// memory.
//
//   options.tensorLocations.setOptimizerLocation(TensorLocationSettings().useOnChipStorage(false));

class Graph;
}  // namespace sluice::ir

namespace sluice::parallel {

/// Where the tensors of one class are.
struct TensorLocation {
  /// Not set: on the devices, except under phased execution.
  std::optional<bool> onChip;
  std::int64_t minElements = 2;  ///< smaller tensors stay on the devices
  bool sharded = false;          ///< each replica keeps a part
  std::int64_t minElementsToShard = 8192;
  bool loadsByIoTiles = false;
  bool storesByIoTiles = false;

  bool operator==(const TensorLocation&) const = default;
};

struct LocationPlan {
  TensorLocation activation;
  TensorLocation weight;
  TensorLocation optimizer;
  TensorLocation accumulator;
  /// By name of a variable, or of the op that makes an activation: whether it stays on the devices,
  /// whatever its class and size.
  std::map<std::string, bool, std::less<>> tensors = {};

  bool operator==(const LocationPlan&) const = default;
};

/// Whether tensors of the class leave the devices.
bool isOffChip(const TensorLocation& location, bool phased);

/// A value that an op tensor_location marks, or a variable.
struct MarkedTensor {
  std::string name;   ///< name of the op that makes it, or of the variable
  ir::OpId producer;  ///< the op that makes it, or that reads the variable
  bool onChip = true;
};
/// The marked tensors in the order of a placed graph.
std::vector<MarkedTensor> markedTensors(const ir::Graph& graph);

/// The variables of a finished graph that are kept in remote memory: weights, optimizer state and
/// accumulators of classes that go there and of sufficient size. A variable that the loop itself
/// assigns stays on its device, except for accumulators. Throws InvalidArgument for a tensor with a
/// location of its own that the graph does not have or that cannot leave its device.
std::set<std::string, std::less<>> remoteVariables(const ir::Graph& graph,
                                                   const LocationPlan& locations,
                                                   bool phased);

}  // namespace sluice::parallel

// Finds the devices and stages of a graph without blocks, as a Builder makes it: from the
// annotations of its ops, or by cutting the graph into parts of similar work. Works on the forward
// graph; backward ops inherit the stages that are set here, and placement reads them.

namespace sluice::ir {
class Graph;
}

namespace sluice::parallel {

/// How ops get their devices: all on one device, as annotated, by a cut of the graph, or by their
/// phases (see annotate_phases.h).
enum class VirtualGraphMode : std::uint8_t { Off, Manual, Auto, ExecutionPhases };

struct PartitionOptions {
  VirtualGraphMode mode = VirtualGraphMode::Off;
  bool pipelining = false;          ///< stages overlap; otherwise one micro-batch at a time
  std::vector<double> ratios = {};  ///< Auto: the devices' shares of the work; empty: equal
  std::int32_t devices = 1;         ///< Auto without ratios: the number of devices
  bool training = false;            ///< activations are kept for the backward pass
  bool accumulation = false;        ///< every trainable weight has an accumulator
  ir::Value loss = {};              ///< Auto: its gradient is work, too; not set: inference
  std::size_t memoryBytes = 0;      ///< Auto: memory of a device; 0: not limited
  /// Auto: the device of each part, of which there are so many; empty: each part has its own.
  std::vector<std::int32_t> deviceOfPart = {};
  std::string_view setting = "devicesPerReplica";  ///< what asks for the devices, for messages
};

/// Sets device and stage of every forward op that is not a leaf, or clears both if all ops are on
/// one device. Without pipelining a new stage begins wherever the device changes in the order of
/// the graph. With pipelining an op's stage is its annotation, or its device if no op has a stage;
/// neighbouring stages on one device are merged. Throws InvalidArgument if only some ops are
/// annotated, for a stage on two devices, for ratios that do not match the number of devices, and
/// for pipelining on one device.
void annotateStages(ir::Graph& graph, const PartitionOptions& options);

}  // namespace sluice::parallel

namespace sluice::ir {
class Graph;
}

namespace sluice::parallel {

/// How blocks become stages if no stages are given: one per device, or one per block in the order
/// of first use.
enum class AutoStage : std::uint8_t { SameAsDevice, AutoIncrement };
std::string_view name(AutoStage rule);

enum class StrategyKind : std::uint8_t { Pipelined, Sharded, SerialPhased, ParallelPhased };
std::string_view name(StrategyKind kind);
constexpr bool isPhased(StrategyKind kind) {
  return kind == StrategyKind::SerialPhased || kind == StrategyKind::ParallelPhased;
}

/// PhaseMajor: phased execution runs a phase for all micro-batches and loads its variables once per
/// round. MicroBatchMajor: it runs all phases for a micro-batch and keeps the activations of only
/// one. Automatic: of the orders that fit, the one that moves fewer bytes. No choice changes a
/// result.
enum class PhaseOrder : std::uint8_t { Automatic, PhaseMajor, MicroBatchMajor };
std::string_view name(PhaseOrder order);

/// Preload: the data of a phase is loaded while the previous phase computes. OnDemand: it is loaded
/// when the phase begins, which takes less memory. Automatic: Preload if there is room. No choice
/// changes a result.
enum class IoSchedule : std::uint8_t { Automatic, Preload, OnDemand };
std::string_view name(IoSchedule schedule);

/// The order in which a pipeline runs its stages and micro-batches. No choice changes a result.
using schedule::PipelineKind;
/// Throws InvalidArgument listing the names: "sequential", "1f1b", "zb-h1", ...
PipelineKind parsePipelineKind(std::string_view text);

/// The part that all strategies share. The classes below make it; it may be copied as this type.
class Strategy {
 public:
  StrategyKind kind() const { return kind_; }
  /// If set, stages are made by this rule and stages() is empty.
  std::optional<AutoStage> autoStage() const { return autoStage_; }
  std::span<const Stage> stages() const { return stages_; }
  /// Finds a stage by position, or by one of its blocks; for concurrent stages, the branch with the
  /// block. Throws InvalidArgument if there is none.
  const Stage& stage(std::size_t id) const { return stages_[checked(id)]; }
  Stage& stage(std::size_t id) { return stages_[checked(id)]; }
  const Stage& stage(std::string_view block) const { return find(block); }
  Stage& stage(std::string_view block) { return const_cast<Stage&>(find(block)); }  // NOLINT: own
  /// The schedule of a pipeline; other strategies do not use it.
  PipelineKind schedule() const { return schedule_; }
  /// The number of phases; stages() has the stages of all. 0 if the model is to be cut.
  std::size_t numPhases() const { return phaseEnds_.size(); }
  /// Throws InvalidArgument if there is no such phase.
  Phase phase(std::size_t i) const;
  PhaseRef phase(std::size_t i);
  /// Number of phases to cut the model into, if no phases are given.
  std::int32_t automaticPhases() const { return automaticPhases_; }
  /// Number of devices over which the model is cut by the work of its ops, whatever its blocks say;
  /// 0: it is not.
  std::int32_t automaticDevices() const { return automaticDevices_; }
  /// Their shares of the work; empty: equal.
  std::span<const double> shares() const { return shares_; }
  /// How many stages each of these devices gets.
  std::int32_t stagesPerDevice() const { return stagesPerDevice_; }
  Liveness liveness() const { return liveness_; }
  /// A copy with another liveness.
  Strategy with(Liveness liveness) const {
    Strategy other = *this;
    other.liveness_ = liveness;
    return other;
  }
  bool hasSeparateBackwardPhase() const { return separateBackward_; }
  PhaseOrder phaseOrder() const { return phaseOrder_; }
  IoSchedule ioSchedule() const { return ioSchedule_; }
  PhaseSchedule phaseSchedule() const { return phaseSchedule_; }
  /// For example PipelinedExecution(Stage("B1").device(0), Stage("B2")).schedule("popart").
  std::string str() const;
  bool operator==(const Strategy&) const = default;

 protected:
  Strategy(StrategyKind kind, AutoStage rule) : kind_(kind), autoStage_(rule) {}
  /// Throws InvalidArgument for no stage, for a block in two stages, and for concurrent stages if
  /// only one device works at a time.
  Strategy(StrategyKind kind, std::vector<Stage> stages);
  /// Throws InvalidArgument for no phase, and for an automatic phase beside others.
  Strategy(StrategyKind kind, std::span<const Phase> phases);
  /// Throws InvalidArgument for a count below 1 or above 1024.
  void setAutomatic(std::int64_t devices);
  /// Throws InvalidArgument for no share, and for one that is not a positive number.
  void setAutomatic(std::vector<double> shares);
  /// Throws InvalidArgument for a count below 1 or above 8, and for a strategy that is not
  /// automatic.
  void setStagesPerDevice(std::int64_t count);
  void setLiveness(Liveness liveness) { liveness_ = liveness; }
  void setSeparateBackward(bool on) { separateBackward_ = on; }
  void setPhaseOrder(PhaseOrder order) { phaseOrder_ = order; }
  void setIoSchedule(IoSchedule schedule) { ioSchedule_ = schedule; }
  void setPhaseSchedule(PhaseSchedule schedule) { phaseSchedule_ = schedule; }
  void setSchedule(PipelineKind schedule) { schedule_ = schedule; }

 private:
  void requireBlocksOnce() const;
  std::size_t checked(std::size_t id) const;
  const Stage& find(std::string_view block) const;
  std::pair<std::size_t, std::size_t> stagesOfPhase(std::size_t i) const;

  StrategyKind kind_;
  std::optional<AutoStage> autoStage_;
  std::vector<Stage> stages_;  // the position is the stage's id
  PipelineKind schedule_ = PipelineKind::OneForwardOneBackward;
  std::vector<std::size_t> phaseEnds_;  // index in stages_ after the last stage of each phase
  std::int32_t automaticPhases_ = 0;
  std::int32_t automaticDevices_ = 0;
  std::vector<double> shares_;
  std::int32_t stagesPerDevice_ = 1;
  Liveness liveness_ = Liveness::AlwaysLive;
  bool separateBackward_ = false;
  PhaseOrder phaseOrder_ = PhaseOrder::Automatic;
  IoSchedule ioSchedule_ = IoSchedule::Automatic;
  PhaseSchedule phaseSchedule_ = PhaseSchedule::Automatic;
};

/// Stages work on different micro-batches at the same time.
class PipelinedExecution : public Strategy {
 public:
  explicit PipelinedExecution(AutoStage rule = AutoStage::SameAsDevice)
      : Strategy(StrategyKind::Pipelined, rule) {}
  PipelinedExecution(std::initializer_list<Stage> stages)
      : PipelinedExecution(std::vector<Stage>(stages)) {}
  explicit PipelinedExecution(std::vector<Stage> stages)
      : Strategy(StrategyKind::Pipelined, std::move(stages)) {}
  template <class... More>
  explicit PipelinedExecution(Stage first, Stage second, More... more)
      : PipelinedExecution(
            std::vector<Stage>{std::move(first), std::move(second), Stage(std::move(more))...}) {}

  /// A stage for each of so many devices: the model is cut by the work of its ops, and blocks do
  /// not matter. With shares, the devices' parts of the work have these proportions. Throws
  /// InvalidArgument for a number of devices below 1 and for shares that are not positive.
  static PipelinedExecution automatic(std::int64_t devices);
  static PipelinedExecution automatic(std::vector<double> shares);
  /// Cuts an automatic pipeline into several stages for each device: the first ones of all devices,
  /// then the second ones, or for zero-bubble in the shape of a V. This shortens the ramps and
  /// copies more. Throws InvalidArgument for a count below 1 or above 8, and without `automatic`.
  PipelinedExecution& stagesPerDevice(std::int64_t count);

  using Strategy::schedule;
  using Strategy::stagesPerDevice;
  PipelinedExecution& schedule(PipelineKind schedule);
  PipelinedExecution& schedule(std::string_view name);
};

/// Stages run one after the other, one device at a time. Without stages, each block is a shard.
class ShardedExecution : public Strategy {
 public:
  explicit ShardedExecution(AutoStage rule = AutoStage::AutoIncrement)
      : Strategy(StrategyKind::Sharded, rule) {}
  ShardedExecution(std::initializer_list<Stage> stages)
      : ShardedExecution(std::vector<Stage>(stages)) {}
  explicit ShardedExecution(std::vector<Stage> stages)
      : Strategy(StrategyKind::Sharded, std::move(stages)) {}
  template <class... More>
  explicit ShardedExecution(Stage first, Stage second, More... more)
      : ShardedExecution(
            std::vector<Stage>{std::move(first), std::move(second), Stage(std::move(more))...}) {}

  /// As PipelinedExecution::automatic.
  static ShardedExecution automatic(std::int64_t devices);
  static ShardedExecution automatic(std::vector<double> shares);
};

/// The part that serial and parallel phased execution share.
template <class Self, StrategyKind kKind>
class PhasedExecution : public Strategy {
 public:
  PhasedExecution(std::initializer_list<Phase> phases)
      : PhasedExecution(std::vector<Phase>(phases)) {}
  explicit PhasedExecution(const std::vector<Phase>& phases) : Strategy(kKind, phases) {}
  template <class... More>
  explicit PhasedExecution(Phase first, More... more)
      : PhasedExecution(std::vector<Phase>{std::move(first), Phase(std::move(more))...}) {}

  /// Whether the last forward phase and the first backward phase are separate phases.
  Self& useSeparateBackwardPhase(bool on) {
    setSeparateBackward(on);
    return static_cast<Self&>(*this);
  }
  Self& order(PhaseOrder order) {
    setPhaseOrder(order);
    return static_cast<Self&>(*this);
  }
  Self& io(IoSchedule schedule) {
    setIoSchedule(schedule);
    return static_cast<Self&>(*this);
  }
  Self& schedule(PhaseSchedule schedule) {
    setPhaseSchedule(schedule);
    return static_cast<Self&>(*this);
  }
  /// Sets where tensors are between phases.
  Self& setTensorsLiveness(Liveness liveness) {
    setLiveness(liveness);
    return static_cast<Self&>(*this);
  }
};

/// One group of devices runs all phases in turn. Between their phases, variables and activations
/// that are needed much later are in remote memory.
class SerialPhasedExecution
    : public PhasedExecution<SerialPhasedExecution, StrategyKind::SerialPhased> {
 public:
  using PhasedExecution::PhasedExecution;
};

/// Two groups of devices take turns: one loads while the other computes.
class ParallelPhasedExecution
    : public PhasedExecution<ParallelPhasedExecution, StrategyKind::ParallelPhased> {
 public:
  using PhasedExecution::PhasedExecution;

  /// Sets Liveness::OffChipAfterFwd (on) or AlwaysLive (off).
  ParallelPhasedExecution& sendTensorsOffChipAfterFwd(bool on) {
    return setTensorsLiveness(on ? Liveness::OffChipAfterFwd : Liveness::AlwaysLive);
  }
};

/// A block of a traced model and the device that it was annotated with; -1: none. A block may have
/// no ops, like that of a dropout layer in inference.
struct BlockInfo {
  std::string name;
  std::int32_t device = -1;
  bool hasOps = true;

  bool operator==(const BlockInfo&) const = default;
};

struct StageInfo {
  std::int32_t device = 0;
  std::vector<std::string> blocks;

  bool operator==(const StageInfo&) const = default;
};

struct StagePlan {
  std::vector<StageInfo> stages;                ///< by stage id
  std::vector<std::int32_t> slotOfStage;        ///< from 0 on; equal for concurrent stages
  std::vector<std::int32_t> stageOfBlock;       ///< by position in the list of blocks
  std::vector<std::int32_t> phaseOfStage = {};  ///< only for phased execution
};

/// The blocks of a traced graph in the order of their first op, then blocks without ops. Throws
/// InvalidArgument if the ops of a block are annotated with different devices.
std::vector<BlockInfo> blocksOf(const ir::Graph& graph);

/// Returns the stages of a model; `blocks` is in the order of blocksOf. Neighbouring stages on one
/// device are merged, unless they are concurrent with others or are phases. A model without blocks,
/// or under SameAsDevice without any device, is one stage on device 0. Throws InvalidArgument for a
/// block that the model does not have or that is in no stage, for a missing device under
/// SameAsDevice, for a stage without a device whose blocks are annotated with different devices,
/// and for concurrent stages on one device.
StagePlan resolveStages(const Strategy& strategy, std::span<const BlockInfo> blocks);

}  // namespace sluice::parallel

#pragma GCC visibility pop
