#include "sluice/runtime/lane_run.h"

#include <algorithm>

#include <fmt/format.h>

namespace sluice::runtime {

using program::Task;
using program::TaskKind;

namespace {

LaneClass classOf(program::LaneKind kind) {
  switch (kind) {
    case program::LaneKind::Load:
    case program::LaneKind::Store:
      return LaneClass::Host;
    case program::LaneKind::Fetch:
    case program::LaneKind::Flush:
      return LaneClass::Remote;
    case program::LaneKind::Compute:
    case program::LaneKind::Exchange:
      break;
  }
  return LaneClass::Device;
}

}  // namespace

LaneRun::LaneRun(const program::Program& program,
                 std::size_t lane,
                 std::size_t replica,
                 std::unique_ptr<device::Queue> queue)
    : program_(program),
      plan_(program.lanes[lane]),
      replica_(replica),
      class_(classOf(plan_.kind)),
      queue_(std::move(queue)),
      signals_(plan_.tasks.size() * kLaneClasses, false) {
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (const program::Lane& each : program.lanes) {
    for (const Task& task : each.tasks) {
      first = std::min(first, task.plannedStart);
      last = std::max(last, task.plannedStart);
    }
  }
  roundSpan_ = last - first + 1;
}

void LaneRun::begin(std::int32_t rounds, std::span<std::byte* const> addresses, bool timed) {
  total_ = perRound() * rounds;
  done_.store(0, std::memory_order_relaxed);
  taken_.store(false, std::memory_order_relaxed);
  buffers_.assign(addresses.begin(), addresses.end());
  times_.clear();
  if (timed) {
    times_.reserve(static_cast<std::size_t>(total_));
  }
}

bool LaneRun::ready(std::int64_t count, std::span<const std::unique_ptr<LaneRun>> lanes) const {
  const std::int32_t now = round(count);
  const std::size_t perReplica = program_.lanes.size();
  for (const program::Wait& wait : program_.waitsOf(task(count))) {
    const std::int64_t since = now - wait.roundsBack;
    if (since < 0) {
      continue;
    }
    const std::size_t step = wait.allReplicas ? perReplica : lanes.size();
    const std::size_t first =
        static_cast<std::size_t>(wait.lane) + (wait.allReplicas ? 0 : replica_ * perReplica);
    for (std::size_t l = first; l < lanes.size(); l += step) {
      if (lanes[l]->done() < since * lanes[l]->perRound() + wait.task + 1) {
        return false;
      }
    }
  }
  return true;
}

std::int64_t LaneRun::priority(std::int64_t count) const {
  return round(count) * roundSpan_ + task(count).plannedStart;
}

void LaneRun::selectSlots(const Task& task,
                          std::int32_t round,
                          std::span<std::byte* const> addresses) {
  for (const program::Slot& slot : program_.slotsOf(task)) {
    if (program_.buffer(slot.buffer).isRemote()) {
      continue;
    }
    buffers_[slot.buffer.index()] =
        addresses[slot.buffer.index()] + program_.buffer(slot.buffer).slotStride() *
                                             static_cast<std::size_t>(program_.slotIn(slot, round));
  }
}

std::string LaneRun::taskText(std::int64_t count) const {
  const Task& t = task(count);
  return fmt::format("{} {} of micro-batch {}, round {}",
                     program::name(t.kind),
                     program::subjectName(program_, t),
                     t.microBatch,
                     round(count));
}

std::string LaneRun::report() const {
  const std::int64_t count = std::min(done(), total_);
  std::string text = fmt::format("{} of device {}: finished {}",
                                 program::name(plan_.kind),
                                 plan_.device,
                                 count == 0 ? "nothing" : taskText(count - 1));
  if (count < total_) {
    text += (isTaken() ? ", is running " : ", next is ") + taskText(count);
  }
  return text;
}

}  // namespace sluice::runtime
