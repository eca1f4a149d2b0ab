// StepJob: one step of a loaded Program while the Engine's threads run it, and the work of its
// tasks. Private to the runtime module.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "sluice/runtime/checked_segment.h"
#include "sluice/runtime/lane_run.h"
#include "sluice/runtime/model_state.h"
#include "sluice/runtime/remote_link.h"
#include "sluice/runtime/shared_sums.h"
#include "sluice/runtime/written_state.h"

namespace sluice::runtime {

/// Lanes, segments and addresses are those of all replicas, one replica after the other.
struct StepJob {
  const program::Program* program = nullptr;
  std::span<const std::unique_ptr<LaneRun>> lanes;
  std::span<const std::unique_ptr<PreparedSegment>> segments;  ///< or, if the program is checked:
  std::span<const std::unique_ptr<CheckedSegment>> checked;
  std::span<const device::Address> addresses;
  std::span<ModelState* const> states;  ///< by replica
  RemoteLinks* links = nullptr;
  SharedSums* sums = nullptr;  ///< null: all replicas are here
  const StepArgs* args = nullptr;
  const WrittenState* written = nullptr;
  const std::atomic<bool>* stopped = nullptr;  ///< the step was aborted
  std::atomic<bool>* wrote = nullptr;          ///< set before the first write of state
  bool workersServeHost = false;               ///< the host's callbacks do not block
  bool watchesFinite = false;                  ///< sums over replicas are checked like kernels
  bool isCaptured = false;                     ///< one queue was given all tasks
  bool records = false;    ///< queues record, so that launches are given one by one
  bool hasPacked = false;  ///< packed copies of variables are still there from the step before

  std::size_t replicas() const { return states.size(); }  ///< here
  /// Those of all owners, and the number of the first one here.
  std::size_t allReplicas() const { return states.size() * (isApart() ? group().ranks.size() : 1); }
  std::size_t firstReplica() const { return isApart() ? states.size() * group().me : 0; }
  bool isApart() const { return args->peers != nullptr && !group().isWhole(); }
  const Group& group() const { return args->peers->group; }
  LaneClass classOf(const LaneRun& lane) const {
    const bool host = lane.laneClass() == LaneClass::Host;
    return host && workersServeHost ? LaneClass::Device : lane.laneClass();
  }
  std::span<const device::Address> addressesOf(std::size_t replica) const {
    return addresses.subspan(replica * program->buffers.size(), program->buffers.size());
  }
};

/// Memory that a thread needs for the tasks that it runs.
struct TaskRoom {
  std::vector<device::Address> sources;  ///< the operands of a sum over replicas
};

/// Whether the next task of a lane, which sends a message, takes little time and waits for nobody.
bool leavesAtOnce(const StepJob& job, const LaneRun& lane);

/// Gives the work of a lane's task to its queue, in the thread that has claimed the lane. `count`
/// tasks were issued before it.
void runTask(const StepJob& job, LaneRun& lane, std::int64_t count, TaskRoom& room);

}  // namespace sluice::runtime
