// Strategies: how the blocks of an annotated model are made into stages and how the stages take
// turns. Plain data that the options hold; resolveStages turns it, with the blocks of a traced
// model, into the stages that placement works with.
//
//   PipelinedExecution{Stage("B1").device(0), "B2", {"B3", "B4"}}
//   PipelinedExecution{"B1", ConcurrentStages("B2", "B3"), "B4"}
//   PipelinedExecution(AutoStage::AutoIncrement).schedule("1f1b")
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
#include "sluice/schedule/pipeline.h"

namespace sluice::parallel {

/// One or more blocks that run on one device as one unit. A block's id alone is a stage too.
class Stage {
 public:
  // A block's id, a list of ids, or Stage("B1", "B2").
  Stage(const char* block) : Stage(std::vector<std::string>{block}) {}  // NOLINT(*-explicit-*)
  Stage(const std::string& block)                                       // NOLINT(*-explicit-*)
      : Stage(std::vector<std::string>{block}) {}
  Stage(std::initializer_list<std::string> blocks) : Stage(std::vector<std::string>(blocks)) {}
  template <class... More>
  Stage(std::string first, std::string second, More... more)
      : Stage(std::vector<std::string>{std::move(first), std::move(second), std::move(more)...}) {}
  /// Throws InvalidArgument for no block, an empty id, or an id given twice.
  explicit Stage(std::vector<std::string> blocks);

  /// Overrides the devices of its blocks. Throws InvalidArgument for a negative number.
  Stage& device(std::int64_t device);

  /// Of all branches, if it has any.
  const std::vector<std::string>& blocks() const { return blocks_; }
  std::optional<std::int32_t> device() const { return device_; }
  /// Of ConcurrentStages; a plain stage has none.
  std::span<const Stage> branches() const { return branches_; }
  std::span<Stage> branches() { return branches_; }
  /// Stage("B1", "B2").device(0)
  std::string str() const;
  bool operator==(const Stage&) const = default;

 protected:
  struct Branches {
    std::vector<Stage> list;
  };
  explicit Stage(Branches branches);

 private:
  std::vector<std::string> blocks_;
  std::optional<std::int32_t> device_;
  std::vector<Stage> branches_;
};

/// Stages that share one place in a pipeline: they run on different devices at the same time and
/// may not depend on each other or share a weight. Copied as a Stage.
class ConcurrentStages : public Stage {
 public:
  template <class... More>
  explicit ConcurrentStages(Stage first, Stage second, More... more)
      : ConcurrentStages(
            std::vector<Stage>{std::move(first), std::move(second), Stage(std::move(more))...}) {}
  /// Throws InvalidArgument for fewer than two, a block that is in two of them, and branches that
  /// have branches themselves.
  explicit ConcurrentStages(std::vector<Stage> branches) : Stage(Branches{std::move(branches)}) {}
};

/// How stages are made of blocks when none are given: one per device, or one per block in the order
/// of first use.
enum class AutoStage : std::uint8_t { SameAsDevice, AutoIncrement };
std::string_view name(AutoStage rule);

enum class StrategyKind : std::uint8_t { Pipelined, Sharded };
std::string_view name(StrategyKind kind);

/// The order in which a pipeline runs its stages and micro-batches. None changes a result.
using schedule::PipelineKind;
/// Throws InvalidArgument that lists the names: "sequential", "1f1b", "zb-h1", ...
PipelineKind parsePipelineKind(std::string_view text);

/// What the two strategies have in common. Made by them; copied as this.
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
  Stage& stage(std::string_view block) { return const_cast<Stage&>(find(block)); }
  /// Of a pipeline; sharded execution has none.
  PipelineKind schedule() const { return schedule_; }
  /// PipelinedExecution(Stage("B1").device(0), Stage("B2")).schedule("popart")
  std::string str() const;
  bool operator==(const Strategy&) const = default;

 protected:
  Strategy(StrategyKind kind, AutoStage rule) : kind_(kind), autoStage_(rule) {}
  /// Throws InvalidArgument for no stage, a block that is in two of them, and for concurrent stages
  /// where one device works at a time.
  Strategy(StrategyKind kind, std::vector<Stage> stages);
  void setSchedule(PipelineKind schedule) { schedule_ = schedule; }

 private:
  std::size_t checked(std::size_t id) const;
  const Stage& find(std::string_view block) const;

  StrategyKind kind_;
  std::optional<AutoStage> autoStage_;
  std::vector<Stage> stages_;  // the position is the stage's id
  PipelineKind schedule_ = PipelineKind::OneForwardOneBackward;
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

/// A block of a traced model and the device it was annotated with; -1: none.
struct BlockInfo {
  std::string name;
  std::int32_t device = -1;

  bool operator==(const BlockInfo&) const = default;
};

struct StageInfo {
  std::int32_t device = 0;
  std::vector<std::string> blocks;

  bool operator==(const StageInfo&) const = default;
};

struct StagePlan {
  std::vector<StageInfo> stages;           ///< by stage id
  std::vector<std::int32_t> slotOfStage;   ///< from 0 on; concurrent stages have the same
  std::vector<std::int32_t> stageOfBlock;  ///< by position in the list of blocks
};

/// The blocks of a traced graph in the order of their first op. Throws InvalidArgument for a block
/// whose ops are annotated with different devices.
std::vector<BlockInfo> blocksInUse(const ir::Graph& graph);

/// The stages of a model. Neighbours on one device are merged, unless they share their place with
/// others; a model without blocks, or
/// without a device at any block under SameAsDevice, is one stage on device 0. Throws
/// InvalidArgument for a block that the model does not have or that no stage has, for a missing
/// device under SameAsDevice, for a stage whose blocks are annotated with different devices and
/// that has none of its own, and for concurrent stages on one device.
StagePlan resolveStages(const Strategy& strategy,
                        std::span<const BlockInfo> blocksInOrderOfFirstUse);

}  // namespace sluice::parallel
