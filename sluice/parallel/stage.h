// Stage: blocks of a model that run on one device as one unit. ConcurrentStages: stages that share
// one place in a pipeline.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
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

}  // namespace sluice::parallel

#pragma GCC visibility pop
