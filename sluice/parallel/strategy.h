// Strategies: how the blocks of an annotated model are made into stages and how the stages take
// turns. Plain data that the options hold; resolveStages turns it, with the blocks of a traced
// model, into the stages that placement works with.
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

#include "sluice/ir/graph.h"
#include "sluice/parallel/phase.h"
#include "sluice/parallel/phases.h"
#include "sluice/parallel/stage.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::parallel {

/// How stages are made of blocks when none are given: one per device, or one per block in the order
/// of first use.
enum class AutoStage : std::uint8_t { SameAsDevice, AutoIncrement };
std::string_view name(AutoStage rule);

enum class StrategyKind : std::uint8_t { Pipelined, Sharded, SerialPhased, ParallelPhased };
std::string_view name(StrategyKind kind);
constexpr bool isPhased(StrategyKind kind) {
  return kind == StrategyKind::SerialPhased || kind == StrategyKind::ParallelPhased;
}

/// Whether phased execution runs a phase for all micro-batches, loading its variables once per
/// round, or all phases for a micro-batch, keeping the activations of one. Automatic: what moves
/// fewer bytes of what fits. None changes a result.
enum class PhaseOrder : std::uint8_t { Automatic, PhaseMajor, MicroBatchMajor };
std::string_view name(PhaseOrder order);

/// Whether the data of a phase is loaded while the one before computes, or when the phase begins,
/// which takes less memory. Automatic: ahead where there is room. None changes a result.
enum class IoSchedule : std::uint8_t { Automatic, Preload, OnDemand };
std::string_view name(IoSchedule schedule);

/// The order in which a pipeline runs its stages and micro-batches. None changes a result.
using schedule::PipelineKind;
/// Throws InvalidArgument that lists the names: "sequential", "1f1b", "zb-h1", ...
PipelineKind parsePipelineKind(std::string_view text);

/// What the strategies have in common. Made by them; copied as this.
class Strategy {
 public:
  StrategyKind kind() const { return kind_; }
  /// Set: stages are made by this rule and stages() is empty.
  std::optional<AutoStage> autoStage() const { return autoStage_; }
  std::span<const Stage> stages() const { return stages_; }
  /// By position or by one of its blocks; of concurrent stages, the one that has the block. Throws
  /// InvalidArgument for one that is not there.
  const Stage& stage(std::size_t id) const { return stages_[checked(id)]; }
  Stage& stage(std::size_t id) { return stages_[checked(id)]; }
  const Stage& stage(std::string_view block) const { return find(block); }
  Stage& stage(std::string_view block) { return const_cast<Stage&>(find(block)); }  // NOLINT: own
  /// Of a pipeline; the others have none.
  PipelineKind schedule() const { return schedule_; }
  /// Of phased execution; stages() has the stages of all of them. 0 if the model is to be cut.
  std::size_t numPhases() const { return phaseEnds_.size(); }
  /// Throws InvalidArgument for one that is not there.
  Phase phase(std::size_t i) const;
  PhaseRef phase(std::size_t i);
  /// Phases to cut the model into, if none are given.
  std::int32_t automaticPhases() const { return automaticPhases_; }
  Liveness liveness() const { return liveness_; }
  /// The same with another liveness.
  Strategy with(Liveness liveness) const {
    Strategy other = *this;
    other.liveness_ = liveness;
    return other;
  }
  bool hasSeparateBackwardPhase() const { return separateBackward_; }
  PhaseOrder phaseOrder() const { return phaseOrder_; }
  IoSchedule ioSchedule() const { return ioSchedule_; }
  PhaseSchedule phaseSchedule() const { return phaseSchedule_; }
  /// PipelinedExecution(Stage("B1").device(0), Stage("B2")).schedule("popart")
  std::string str() const;
  bool operator==(const Strategy&) const = default;

 protected:
  Strategy(StrategyKind kind, AutoStage rule) : kind_(kind), autoStage_(rule) {}
  /// Throws InvalidArgument for no stage, a block that is in two of them, and for concurrent stages
  /// where one device works at a time.
  Strategy(StrategyKind kind, std::vector<Stage> stages);
  /// Throws InvalidArgument for no phase, and for one that stands for all of them beside others.
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
  std::vector<std::size_t> phaseEnds_;  // of phased execution: in stages_, behind the last
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

/// Stages run one after the other, one device at a time. Without stages each block is a shard.
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

/// What serial and parallel phased execution have in common.
template <class Self, StrategyKind kKind>
class PhasedExecution : public Strategy {
 public:
  PhasedExecution(std::initializer_list<Phase> phases)
      : PhasedExecution(std::vector<Phase>(phases)) {}
  explicit PhasedExecution(const std::vector<Phase>& phases) : Strategy(kKind, phases) {}
  template <class... More>
  explicit PhasedExecution(Phase first, More... more)
      : PhasedExecution(std::vector<Phase>{std::move(first), Phase(std::move(more))...}) {}

  /// The last forward and the first backward phase are not one.
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
  /// Where tensors are between phases.
  Self& setTensorsLiveness(Liveness liveness) {
    setLiveness(liveness);
    return static_cast<Self&>(*this);
  }
};

/// One group of devices runs all phases in turn; variables, and activations that are needed much
/// later, are in remote memory between their phases.
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

  /// Liveness::OffChipAfterFwd or AlwaysLive.
  ParallelPhasedExecution& sendTensorsOffChipAfterFwd(bool on) {
    return setTensorsLiveness(on ? Liveness::OffChipAfterFwd : Liveness::AlwaysLive);
  }
};

/// A block of a traced model and the device it was annotated with; -1: none. A block may be without
/// ops: in inference that of a dropout layer is.
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
  std::vector<std::int32_t> slotOfStage;        ///< from 0 on; concurrent stages have the same
  std::vector<std::int32_t> stageOfBlock;       ///< by position in the list of blocks
  std::vector<std::int32_t> phaseOfStage = {};  ///< of phased execution
};

/// The blocks of a traced graph in the order of their first op, then those without ops. Throws
/// InvalidArgument for a block whose ops are annotated with different devices.
std::vector<BlockInfo> blocksOf(const ir::Graph& graph);

/// The stages of a model with blocks in the order of blocksOf. Neighbours on one device are merged,
/// unless they share their place with others or are phases; a model without blocks, or without a
/// device at any block under SameAsDevice, is one stage on device 0. Throws InvalidArgument for a
/// block that the model does not have or that no stage has, for a missing device under
/// SameAsDevice, for a stage whose blocks are annotated with different devices and that has none of
/// its own, and for concurrent stages on one device.
StagePlan resolveStages(const Strategy& strategy, std::span<const BlockInfo> blocks);

}  // namespace sluice::parallel
