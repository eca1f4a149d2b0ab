// Strategies: how the blocks of an annotated model become stages, and in which order the stages
// run. A strategy is plain data in the options; resolveStages combines it with the blocks of a
// traced model and returns the stages that placement uses.
//
//   PipelinedExecution{Stage("B1").device(0), "B2", {"B3", "B4"}}
//   PipelinedExecution{"B1", ConcurrentStages("B2", "B3"), "B4"}
//   PipelinedExecution(AutoStage::AutoIncrement).schedule("1f1b")
//   SerialPhasedExecution{Phase("B1"), Phase("B2", "B3")}.setTensorsLiveness(Liveness::AlwaysLive)
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/parallel/phase.h"
#include "sluice/parallel/phases.h"
#include "sluice/parallel/stage.h"
#include "sluice/schedule/pipeline.h"

#pragma GCC visibility push(default)

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

  using Strategy::schedule;
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
