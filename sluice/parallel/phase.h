// Phase: a part of a model that runs as a unit on a group of devices while the variables of the
// next phase are loaded.
//
//   Phase("A", "B")                                     one stage of two blocks
//   Phase(Stage("A"), Stage("B")).devices(0, 2)         two stages at the same time
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/parallel/stage.h"

#pragma GCC visibility push(default)

namespace sluice::parallel {

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
