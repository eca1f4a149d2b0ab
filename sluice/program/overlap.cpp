#include "sluice/program/overlap.h"

#include <algorithm>
#include <optional>
#include <span>

#include "sluice/program/task_lists.h"

namespace sluice::program {
namespace {

class Limiter {
 public:
  Limiter(Program& program, const OverlapPlan& plan)
      : p_(program), plan_(plan), lists_(takeApart(program)) {}

  void run() {
    for (std::size_t l = 0; l < p_.lanes.size(); ++l) {
      const Lane& lane = p_.lanes[l];
      const std::optional<std::int32_t> compute = computeOf(lane.device);
      if (!compute || lane.tasks.empty()) {
        continue;
      }
      if (lane.kind == LaneKind::Load) {
        limitFeeds(static_cast<std::int32_t>(l), *compute);
      } else if (lane.kind == LaneKind::Store) {
        limitDrains(static_cast<std::int32_t>(l), *compute);
      }
    }
    putTogether(lists_, p_);
  }

 private:
  std::optional<std::int32_t> computeOf(std::int32_t device) const {
    for (std::size_t l = 0; l < p_.lanes.size(); ++l) {
      if (p_.lanes[l].kind == LaneKind::Compute && p_.lanes[l].device == device &&
          !p_.lanes[l].tasks.empty()) {
        return static_cast<std::int32_t>(l);
      }
    }
    return std::nullopt;
  }
  Table<TaskEntry>& list(std::int32_t lane) { return lists_[lane]; }
  std::int32_t count(std::int32_t lane) { return list(lane).count(); }

  /// The first task of `lane` that waits for task `task` of lane `other` of its own round.
  std::optional<std::int32_t> firstWaiting(std::int32_t lane,
                                           std::int32_t other,
                                           std::int32_t task) {
    for (std::int32_t t = 0; t < count(lane); ++t) {
      for (const Wait& wait : p_.waitsOf(p_.lanes[lane].tasks[t])) {
        if (wait.lane == other && wait.task >= task && wait.roundsBack == 0) {
          return t;
        }
      }
    }
    return std::nullopt;
  }

  void limitFeeds(std::int32_t load, std::int32_t compute) {
    for (std::int32_t f = 0; f < count(load); ++f) {
      Table<Wait>& waits = list(load)[f].waits;
      if (plan_.inputs == OverlapMode::OverlapAccumulationLoop) {
        waits.push_back({compute, count(compute) - 1, 1});
      } else if (plan_.inputs == OverlapMode::NoOverlap) {
        if (const std::optional<std::int32_t> reader = firstWaiting(compute, load, f)) {
          waits.push_back(waitForArrival(compute, *reader, count(compute)));
        }
      }
    }
  }

  void limitDrains(std::int32_t store, std::int32_t compute) {
    if (plan_.outputs == OverlapMode::OverlapAccumulationLoop) {
      list(compute)[0].waits.push_back({store, count(store) - 1, 1});
    } else if (plan_.outputs == OverlapMode::NoOverlap) {
      for (std::int32_t d = 0; d < count(store); ++d) {
        const std::span<const Wait> waits = p_.waitsOf(p_.lanes[store].tasks[d]);
        const auto made = std::ranges::find(waits, compute, &Wait::lane);
        if (made != waits.end()) {
          const bool last = made->task + 1 == count(compute);
          const std::int32_t next = last ? 0 : made->task + 1;
          list(compute)[next].waits.push_back({store, d, last ? 1 : 0});
        }
      }
    }
  }

  Program& p_;
  OverlapPlan plan_;
  TaskLists lists_;
};

}  // namespace

void limitOverlap(Program& program, const OverlapPlan& plan) {
  constexpr OverlapMode kAll = OverlapMode::OverlapDeviceIterationLoop;
  if (plan.inputs != kAll || plan.outputs != kAll) {
    Limiter(program, plan).run();
  }
}

}  // namespace sluice::program
