#include "sluice/runtime/lane_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"

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

LanePlans::LanePlans(const program::Program& p)
    : program(p), buffersOf(p.devices.size()), signals(p.lanes.size()) {
  numberOf.reserve(p.buffers.size());
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    numberOf.push_back(-1);
    if (!p.buffers[b].isRemote()) {  // only fetches and flushes use that
      auto& ofDevice = buffersOf[static_cast<std::size_t>(p.buffers[b].device)];
      numberOf.back() = static_cast<std::int32_t>(ofDevice.size());
      ofDevice.emplace_back(b);
    }
  }
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::size_t l = 0; l < p.lanes.size(); ++l) {
    signals[l].resize(p.lanes[l].tasks.size() * kLaneClasses, false);
    for (const Task& task : p.lanes[l].tasks) {
      first = std::min(first, task.plannedStart);
      last = std::max(last, task.plannedStart);
    }
  }
  roundSpan = last - first + 1;
  for (const program::Lane& lane : p.lanes) {
    for (const Task& task : lane.tasks) {
      for (const program::Wait& wait : p.waitsOf(task)) {
        signals[static_cast<std::size_t>(wait.lane)]
               [static_cast<std::size_t>(wait.task) * kLaneClasses +
                static_cast<std::size_t>(classOf(lane.kind))] = true;
      }
    }
  }
}

std::vector<device::KernelCall> LanePlans::callsOf(const program::Segment& segment) const {
  std::vector<device::KernelCall> calls = segment.calls;
  const auto renumber = [&](std::int32_t& buffer) {
    if (buffer >= 0) {
      SLUICE_CHECK(program.buffer(program::BufferId(buffer)).device == segment.device,
                   "a kernel of device {} uses buffer '{}' of another device",
                   segment.device,
                   program.buffer(program::BufferId(buffer)).name);
      buffer = numberOf[static_cast<std::size_t>(buffer)];
    }
  };
  for (device::KernelCall& call : calls) {
    std::ranges::for_each(call.inputs, renumber);
    std::ranges::for_each(call.outputs, renumber);
    renumber(call.scratch);
  }
  return calls;
}

std::size_t LanePlans::entries() const {
  std::size_t count = 2 * numberOf.size();
  for (const std::vector<bool>& lane : signals) {
    count += lane.size();
  }
  return count;
}

LaneRun::LaneRun(const LanePlans& plans,
                 std::size_t lane,
                 std::size_t replica,
                 std::unique_ptr<device::Queue> queue)
    : plans_(plans),
      program_(plans.program),
      plan_(plans.program.lanes[lane]),
      replica_(replica),
      class_(classOf(plan_.kind)),
      queue_(std::move(queue)),
      signals_(plans.signals[lane]) {
  if (plan_.kind == program::LaneKind::Compute) {
    buffers_.resize(plans.buffersOf[static_cast<std::size_t>(plan_.device)].size());
  }
}

void LaneRun::begin(std::int32_t rounds, std::span<std::byte* const> addresses, bool timed) {
  total_ = perRound() * rounds;
  done_.store(0, std::memory_order_relaxed);
  taken_.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i] = addresses[plans_.buffersOf[static_cast<std::size_t>(plan_.device)][i].index()];
  }
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
  return round(count) * plans_.roundSpan + task(count).plannedStart;
}

void LaneRun::selectSlots(const Task& task,
                          std::int32_t round,
                          std::span<std::byte* const> addresses) {
  for (const program::Slot& slot : program_.slotsOf(task)) {
    const std::int32_t number = plans_.numberOf[slot.buffer.index()];
    buffers_[static_cast<std::size_t>(number)] =
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
