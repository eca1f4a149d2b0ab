#include "sluice/program/verify_order.h"

#include <iterator>

namespace sluice::program {

LaneOrder::LaneOrder(const Program& program)
    : p_(program),
      edges_(program.lanes.size()),
      found_(program.lanes.size()),
      histories_(program.lanes.size()),
      reached_(program.lanes.size(), 0) {
  Table<std::int32_t> last(program.lanes.size(), -1);  // lane that was seen to wait for it
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    const auto lane = static_cast<std::int32_t>(l);
    perRound_.push_back(static_cast<std::int64_t>(program.lanes[l].tasks.size()));
    for (const Task& task : program.lanes[l].tasks) {
      for (const Wait& wait : program.waitsOf(task)) {
        if (last[wait.lane] != lane) {
          last[wait.lane] = lane;
          edges_[l].push_back({.lane = wait.lane});
        }
      }
    }
    std::ranges::sort(edges_[l], {}, &Edge::lane);
    histories_[l].steps.resize(edges_[l].size());
  }
}

/// Makes the history of a lane reach as far as this task. Waits are the same in every execution, so
/// it follows from the Program.
void LaneOrder::extend(std::size_t lane, std::int64_t tasks) {
  const std::vector<Edge>& edges = edges_[lane];
  History& history = histories_[lane];
  for (; history.tasks < tasks; ++history.tasks) {
    const auto round = static_cast<std::int32_t>(history.tasks / perRound_[lane]);
    const auto index = static_cast<std::size_t>(history.tasks % perRound_[lane]);
    for (const Wait& wait : p_.waitsOf(p_.lanes[lane].tasks[index])) {
      const auto e = std::ranges::lower_bound(edges, wait.lane, {}, &Edge::lane) - edges.begin();
      std::vector<Step>& steps = history.steps[e];
      const std::int64_t count = wanted(wait, round).count;
      if (count > (steps.empty() ? 0 : steps.back().known)) {
        steps.push_back({history.tasks + 1, count});
      }
    }
  }
}

std::int64_t LaneOrder::knownAt(std::size_t lane, std::size_t edge, std::int64_t count) {
  extend(lane, count);
  const std::vector<Step>& steps = histories_[lane].steps[edge];
  const auto behind = std::ranges::upper_bound(steps, count, {}, &Step::at);
  return behind == steps.begin() ? 0 : std::prev(behind)->known;
}

bool LaneOrder::isFarBefore(const Access& earlier, const Access& later) {
  std::vector<Edge>& found = found_[later.lane];
  auto known = std::ranges::find(found, earlier.lane, &Edge::lane);
  if (known != found.end() && known->known >= earlier.count) {
    return true;
  }
  if (!search(earlier, later)) {
    return false;
  }
  if (known == found.end()) {
    known = found.insert(known, {.lane = earlier.lane});
  }
  known->known = earlier.count;
  return true;
}

/// Goes back from `later` over lanes and waits until it meets `earlier` or nothing new.
bool LaneOrder::search(const Access& earlier, const Access& later) {
  front_.assign(1, later.lane);
  reached_[later.lane] = later.count;
  bool found = false;
  for (std::size_t i = 0; i < front_.size() && !found; ++i) {
    const auto lane = static_cast<std::size_t>(front_[i]);
    for (std::size_t e = 0; e < edges_[lane].size(); ++e) {
      const std::int32_t other = edges_[lane][e].lane;
      const std::int64_t known = knownAt(lane, e, reached_[lane]);
      std::int64_t& reached = reached_[other];
      if (known > reached) {
        reached = known;
        front_.push_back(other);
        found = found || (other == earlier.lane && known >= earlier.count);
      }
    }
  }
  for (const std::int32_t lane : front_) {
    reached_[lane] = 0;
  }
  return found;
}

}  // namespace sluice::program
