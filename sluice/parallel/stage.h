// Stage: blocks of a model that run on one device as one unit. ConcurrentStages: stages that share
// one place in a pipeline.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice::parallel {

/// One or more blocks that run on one device as one unit. A single block's id is a stage, too.
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

  /// Includes the blocks of all branches.
  const std::vector<std::string>& blocks() const { return blocks_; }
  std::optional<std::int32_t> device() const { return device_; }
  /// The branches of ConcurrentStages; empty for a plain stage.
  std::span<const Stage> branches() const { return branches_; }
  std::span<Stage> branches() { return branches_; }
  /// For example Stage("B1", "B2").device(0).
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
/// may not depend on each other or share a weight. It may be copied as a plain Stage.
class ConcurrentStages : public Stage {
 public:
  template <class... More>
  explicit ConcurrentStages(Stage first, Stage second, More... more)
      : ConcurrentStages(
            std::vector<Stage>{std::move(first), std::move(second), Stage(std::move(more))...}) {}
  /// Throws InvalidArgument for fewer than two branches, for a block in two branches, and for
  /// branches that have branches themselves.
  explicit ConcurrentStages(std::vector<Stage> branches) : Stage(Branches{std::move(branches)}) {}
};

// The numbers of phases. Forward phases count up; the backward phase of forward phase p is 2 N - 2
// - p, where N is the number of forward phases and gaps. The distance between two numbers decides
// what stays on a device between them (see streaming.h); a Liveness chooses the gaps.

/// Where tensors are between the phases that use them.
enum class Liveness : std::uint8_t {
  AlwaysLive,                ///< the last forward and the first backward phase are one
  OffChipAfterFwd,           ///< off the devices between the forward and the backward pass
  OffChipAfterFwdNoOverlap,  ///< the same, and no two phases have data at the same time
  OffChipAfterEachPhase      ///< off the devices after every phase
};
std::string_view name(Liveness liveness);

/// How the update of a phase alternates with loading and saving its state. Automatic: Batch if
/// there is room, otherwise Interleaving. No choice changes a result.
enum class PhaseSchedule : std::uint8_t {
  Automatic,
  Interleaving,     ///< variable by variable: one is loaded while the previous one is updated
  Batch,            ///< all are loaded ahead; each is saved after its update
  BatchClusteredIO  ///< all are loaded before the whole update and saved after it
};
std::string_view name(PhaseSchedule schedule);

struct PhaseNumbers {
  std::int32_t count = 0;   ///< N: forward phases and gaps
  std::int32_t stride = 1;  ///< from one forward phase to the next
  std::vector<std::int32_t> forward;
  std::vector<std::int32_t> backward;  ///< of the same phase
};

/// Numbers `phases` forward phases. Throws InvalidArgument for less than one.
PhaseNumbers numberPhases(std::int32_t phases, Liveness liveness, bool separateBackward);

// Phase: a part of a model that runs as a unit on a group of devices while the variables of the
// next phase are loaded.
//
//   Phase("A", "B")                                     one stage of two blocks
//   Phase(Stage("A"), Stage("B")).devices(0, 2)         two stages at the same time

class Phase {
 public:
  template <class... Ids>
  requires(sizeof...(Ids) > 0 && (std::convertible_to<Ids, std::string_view> && ...))
      Phase(const Ids&... blocks)  // NOLINT(*-explicit-*): a block's id alone is a phase
      : Phase(std::vector<Stage>{Stage(std::vector<std::string>{std::string(blocks)...})}) {}
  template <class... Stages>
  requires(sizeof...(Stages) > 0 &&
           (std::same_as<Stages, Stage> && ...)) explicit Phase(Stages... stages)
      : Phase(std::vector<Stage>{std::move(stages)...}) {}
  /// The stages run concurrently. Throws InvalidArgument for no stage and for ConcurrentStages.
  explicit Phase(std::vector<Stage> stages);

  /// Stands for all phases: cuts the model into `count` phases with about equal weight bytes.
  static Phase automatic(std::int64_t count);

  /// Sets the device of each stage. Throws InvalidArgument unless there is one for each.
  template <std::integral... Devices>
  Phase& devices(Devices... numbers) {
    return devices(std::vector<std::int64_t>{static_cast<std::int64_t>(numbers)...});
  }
  Phase& devices(const std::vector<std::int64_t>& numbers);

  std::span<const Stage> stages() const { return stages_; }
  const Stage& stage(std::size_t i) const;
  Stage& stage(std::size_t i);
  /// The count given to `automatic`; 0 for any other phase.
  std::int32_t automaticCount() const { return automatic_; }
  /// For example Phase(Stage("A"), Stage("B")).
  std::string str() const;
  bool operator==(const Phase&) const = default;

 private:
  Phase() = default;

  std::vector<Stage> stages_;
  std::int32_t automatic_ = 0;
};

/// Refers to a phase of a strategy, so that its devices can be changed there.
class PhaseRef {
 public:
  explicit PhaseRef(std::span<Stage> stages) : stages_(stages) {}

  template <std::integral... Devices>
  PhaseRef& devices(Devices... numbers) {
    Phase changed(std::vector<Stage>(stages_.begin(), stages_.end()));
    changed.devices(numbers...);
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      stages_[i] = changed.stage(i);
    }
    return *this;
  }
  std::span<Stage> stages() const { return stages_; }

 private:
  std::span<Stage> stages_;
};

}  // namespace sluice::parallel

#pragma GCC visibility pop
