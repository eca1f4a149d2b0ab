#include "sluice/profile/chain.h"

namespace sluice::profile {

using program::LaneKind;
using runtime::TaskTime;

Chains::Chains(const Trace& trace, const Trace::Step& step)
    : t_(trace), lanes_(trace.lanes.size() * static_cast<std::size_t>(trace.replicas)) {
  for (const TaskTime& time : step) {
    lanes_[static_cast<std::size_t>(time.replica) * trace.lanes.size() +
           static_cast<std::size_t>(time.lane)]
        .push_back(&time);
    last_ = last_ == nullptr || time.end > last_->end ? &time : last_;
  }
  for (auto& lane : lanes_) {
    std::ranges::sort(lane, {}, [&](const TaskTime* time) { return placeOf(*time); });
  }
}

std::int64_t Chains::placeOf(const TaskTime& time) const {
  return std::int64_t{time.round} * static_cast<std::int64_t>(t_.laneOf(time).tasks.size()) +
         time.task;
}

const TaskTime* Chains::find(std::int32_t replica, std::int32_t lane, std::int64_t place) const {
  const auto& times =
      lanes_[static_cast<std::size_t>(replica) * t_.lanes.size() + static_cast<std::size_t>(lane)];
  const auto found = std::ranges::lower_bound(
      times, place, {}, [&](const TaskTime* time) { return placeOf(*time); });
  return found != times.end() && placeOf(**found) == place ? *found : nullptr;
}

const TaskTime* Chains::lastNeeded(const TaskTime& time) const {
  const TaskTime* latest = find(time.replica, time.lane, placeOf(time) - 1);
  const auto consider = [&](const TaskTime* other) {
    // Of equals one in another lane: it says more than that the lane was busy.
    if (other != nullptr && (latest == nullptr || other->end >= latest->end)) {
      latest = other;
    }
  };
  for (const program::Wait& wait : t_.taskOf(time).waits) {
    const std::int64_t round = std::int64_t{time.round} - wait.roundsBack;
    if (round < 0) {
      continue;
    }
    const auto tasks = t_.lanes[static_cast<std::size_t>(wait.lane)].tasks.size();
    const std::int64_t place = round * static_cast<std::int64_t>(tasks) + wait.task;
    if (!wait.allReplicas) {
      consider(find(time.replica, wait.lane, place));
      continue;
    }
    for (std::int32_t replica = 0; replica < t_.replicas; ++replica) {
      consider(find(replica, wait.lane, place));
    }
  }
  return latest;
}

Cause Chains::workCause(const TaskTime& time) const {
  switch (t_.laneOf(time).kind) {
    case LaneKind::Compute:
      return Cause::Ramp;
    case LaneKind::Load:
      return Cause::Input;
    case LaneKind::Store:
      return Cause::Host;
    case LaneKind::Fetch:
    case LaneKind::Flush:
      return Cause::RemoteMemory;
    case LaneKind::Exchange:
    case LaneKind::Send:
    case LaneKind::Receive:
      break;
  }
  return Cause::Transfer;
}

Cause Chains::waitCause(const TaskTime& time) const {
  switch (t_.laneOf(time).kind) {
    case LaneKind::Compute:
      return Cause::Cores;
    case LaneKind::Exchange:  // simulated devices copy by ports of their own
      return t_.simulated.empty() ? Cause::Cores : Cause::Transfer;
    case LaneKind::Load:
    case LaneKind::Store:
      return Cause::Host;
    case LaneKind::Fetch:
    case LaneKind::Flush:
      return Cause::RemoteMemory;
    case LaneKind::Send:
    case LaneKind::Receive:
      break;
  }
  return Cause::Transfer;
}

}  // namespace sluice::profile
