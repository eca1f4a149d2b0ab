#include "sluice/runtime/lane_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/program/program_text.h"

namespace sluice::runtime {

using program::Task;
using program::TaskKind;

namespace {

/// Of a lane; where more would be needed, none is made.
constexpr std::int64_t kMostCaptures = 1 << 14;
/// Tasks of a lane whose times are kept; of a longer step the last ones are.
constexpr std::int64_t kMostTimes = 1 << 20;
/// Tasks of a lane that are told of after a failure.
constexpr std::int64_t kLastEvents = 8;

LaneClass classOfKind(program::LaneKind kind) {
  switch (kind) {
    case program::LaneKind::Load:
    case program::LaneKind::Store:
      return LaneClass::Host;
    case program::LaneKind::Fetch:
    case program::LaneKind::Flush:
    case program::LaneKind::Receive:
      return LaneClass::Remote;
    case program::LaneKind::Send:
      return LaneClass::Send;
    case program::LaneKind::Compute:
    case program::LaneKind::Exchange:
      break;
  }
  return LaneClass::Device;
}

}  // namespace

StampArray::StampArray(device::Device& device, std::size_t count)
    : memory_(device.allocatePinned(count * sizeof(device::Stamp))),
      stamps_(reinterpret_cast<device::Stamp*>(memory_->host())) {
  for (std::size_t i = 0; i < count; ++i) {
    new (stamps_ + i) device::Stamp;
  }
}

LaneClass LanePlans::classOf(const program::Lane& lane) const {
  const bool sums = lane.kind == program::LaneKind::Exchange && lane.peer == lane.device;
  return sums && where == Replicas::Apart ? LaneClass::Remote : classOfKind(lane.kind);
}

LanePlans::LanePlans(const program::Program& p, Replicas given)
    : program(p), where(given), buffersOf(p.devices.size()), signals(p.lanes.size()) {
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
  for (const program::Wait& wait : p.waits) {
    eventRounds = std::max(eventRounds, wait.roundsBack + 1);
  }
  ++eventRounds;  // the host may be a round ahead of the queues
  for (const program::Lane& lane : p.lanes) {
    for (const Task& task : lane.tasks) {
      for (const program::Wait& wait : p.waitsOf(task)) {
        signals[static_cast<std::size_t>(wait.lane)]
               [static_cast<std::size_t>(wait.task) * kLaneClasses +
                static_cast<std::size_t>(classOf(lane))] = true;
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
                 Laggards& laggards,
                 std::size_t lane,
                 std::size_t replica,
                 device::Device& device)
    : plans_(plans),
      laggards_(laggards),
      program_(plans.program),
      plan_(plans.program.lanes[lane]),
      replica_(replica),
      class_(plans.classOf(plan_)),
      device_(device),
      asynchronous_(device.info().asynchronous),
      stamp_(device, 1),
      queue_(device.makeQueue()),
      signals_(plans.signals[lane]) {
  if (plan_.kind == program::LaneKind::Compute) {
    buffers_.resize(plans.buffersOf[static_cast<std::size_t>(plan_.device)].size());
  }
  if (!asynchronous_) {
    return;
  }
  const std::int64_t period = perRound() * program::slotPeriod(program_, plan_);
  if (plan_.kind == program::LaneKind::Compute && period <= kMostCaptures) {
    captures_.resize(static_cast<std::size_t>(period));
  }
  events_.resize(static_cast<std::size_t>(perRound() * plans.eventRounds));
  for (std::unique_ptr<device::Event>& event : events_) {
    event = device.makeEvent();
  }
  if (plan_.kind == program::LaneKind::Load) {
    for (const program::Port& stream : program_.feeds) {
      lastUse_.emplace_back(static_cast<std::size_t>(program_.buffer(stream.buffer).slots), -1);
    }
  }
}

void LaneRun::begin(std::int32_t rounds,
                    std::span<const device::Address> addresses,
                    std::uint64_t generation,
                    LaneTimes times) {
  if (generation != generation_) {
    std::ranges::fill(captures_, std::nullopt);
    generation_ = generation;
  }
  total_ = perRound() * rounds;
  issued_.store(0, std::memory_order_relaxed);
  taken_.store(false, std::memory_order_relaxed);
  ended().number.store(0, std::memory_order_relaxed);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i] = addresses[plans_.buffersOf[static_cast<std::size_t>(plan_.device)][i].index()];
  }
  for (std::vector<std::int64_t>& slots : lastUse_) {
    std::ranges::fill(slots, -1);
  }
  failed_.store(-1, std::memory_order_relaxed);
  timed_ = times != LaneTimes::None;
  const std::int64_t wanted = std::min(total_, times == LaneTimes::All ? kMostTimes : kLastEvents);
  if (timed_ && wanted > timesKept_) {
    times_.emplace(device_, 2 * static_cast<std::size_t>(wanted));
    timesKept_ = wanted;
  }
  for (std::int64_t i = 0; timed_ && i < 2 * std::min(total_, timesKept_); ++i) {
    (*times_)[static_cast<std::size_t>(i)].number.store(0, std::memory_order_relaxed);
  }
}

template <class F>
void LaneRun::forEachWait(std::int64_t count,
                          std::span<const std::unique_ptr<LaneRun>> lanes,
                          const F& f) const {
  const std::int32_t now = round(count);
  const std::size_t perReplica = program_.lanes.size();
  for (const program::Wait& wait : program_.waitsOf(task(count))) {
    const std::int64_t since = now - wait.roundsBack;
    if (since < 0) {
      continue;
    }
    const auto lane = static_cast<std::size_t>(wait.lane);
    if (wait.allReplicas) {
      const LaneRun& late = *lanes[lane + laggards_.at(lane) * perReplica];
      const std::int64_t awaited = since * late.perRound() + wait.task;
      if (late.issued() <= awaited && !f(late, awaited)) {
        return;
      }
    }
    const std::size_t step = wait.allReplicas ? perReplica : lanes.size();
    const std::size_t first = lane + (wait.allReplicas ? 0 : replica_ * perReplica);
    for (std::size_t l = first; l < lanes.size(); l += step) {
      if (!f(*lanes[l], since * lanes[l]->perRound() + wait.task)) {
        return;
      }
    }
  }
}

Readiness LaneRun::readiness(std::int64_t count,
                             std::span<const std::unique_ptr<LaneRun>> lanes,
                             const device::Event** pending) const {
  Readiness answer = Readiness::Ready;
  const auto mustBeDone = [&](const LaneRun& lane, std::int64_t awaited) {
    // The event comes right behind the stamp. It may stand for a later task by now, which ends
    // without this one: all that it waits for has been issued.
    if (lane.done() <= awaited || !lane.event(awaited).isDone()) {
      answer = Readiness::Pending;
      if (pending != nullptr) {
        *pending = &lane.event(awaited);
      }
    }
  };
  // What is drained goes to the host's code, which no queue waits for.
  const bool forHost = task(count).kind == TaskKind::Drain;
  forEachWait(count, lanes, [&](const LaneRun& lane, std::int64_t awaited) {
    if (lane.issued() <= awaited) {
      answer = Readiness::Blocked;
      laggards_.set(static_cast<std::size_t>(&lane.plan_ - program_.lanes.data()), lane.replica_);
      return false;
    }
    if (lane.asynchronous_ && (forHost || !canQueueWaitFor(lane))) {
      mustBeDone(lane, awaited);
    }
    return true;
  });
  const std::int64_t oldest = count - ring();
  if (asynchronous_ && oldest >= 0 && answer != Readiness::Blocked) {
    mustBeDone(*this, oldest);  // its event is needed again
  }
  return answer;
}

const device::Event& LaneRun::event(std::int64_t count) const {
  return *events_[eventIndex(count)];
}

bool LaneRun::isUnblocked(std::int64_t count,
                          std::span<const std::unique_ptr<LaneRun>> lanes) const {
  bool unblocked = true;
  forEachWait(count, lanes, [&](const LaneRun& lane, std::int64_t awaited) {
    unblocked = lane.issued() > awaited;
    return unblocked;
  });
  return unblocked;
}

void LaneRun::beginTask(std::int64_t count, std::span<const std::unique_ptr<LaneRun>> lanes) {
  if (asynchronous_) {
    forEachWait(count, lanes, [&](const LaneRun& lane, std::int64_t awaited) {
      if (canQueueWaitFor(lane)) {
        queue_->wait(lane.event(awaited));
      }
      return true;
    });
  }
  if (timed_) {
    queue_->stamp((*times_)[timeIndex(count)], count + 1);
  }
}

void LaneRun::endTask(std::int64_t count) {
  if (timed_) {
    queue_->stamp((*times_)[timeIndex(count) + 1], count + 1);
  }
  if (asynchronous_) {
    queue_->stamp(ended(), count + 1);
    queue_->record(*events_[eventIndex(count)]);
  }
}

void LaneRun::endStep(device::Queue& queue) {
  if (total_ > 0) {
    queue.record(*events_[eventIndex(total_ - 1)]);
  }
}

const PreparedSegment::Captures& LaneRun::capturesOf(std::int64_t count, PreparedSegment& segment) {
  static const PreparedSegment::Captures kNone;
  if (captures_.empty()) {
    return kNone;
  }
  std::optional<PreparedSegment::Captures>& captured =
      captures_[static_cast<std::size_t>(count) % captures_.size()];
  if (!captured) {
    captured = segment.capture(buffers_);
  }
  return *captured;
}

std::size_t LaneRun::numCaptures() const {
  std::size_t count = 0;
  for (const std::optional<PreparedSegment::Captures>& captured : captures_) {
    count += captured ? captured->size() : 0;
  }
  return count;
}

std::int64_t& LaneRun::lastUse(std::size_t stream, std::size_t slot) {
  return lastUse_[stream][slot];
}

void LaneRun::addTimes(std::vector<TaskTime>& times) const {
  for (std::int64_t count = std::max<std::int64_t>(total_ - timesKept_, 0);
       timed_ && count < total_;
       ++count) {
    const std::size_t at = timeIndex(count);
    times.push_back({.lane = number(),
                     .task = static_cast<std::int32_t>(count % perRound()),
                     .round = round(count),
                     .start = (*times_)[at].time.load(std::memory_order_relaxed),
                     .end = (*times_)[at + 1].time.load(std::memory_order_relaxed),
                     .replica = static_cast<std::int32_t>(replica_)});
  }
}

TaskEvent LaneRun::eventOf(std::int64_t count) const {
  TaskEvent event{.lane = program::laneName(plan_),
                  .task = taskText(count),
                  .replica = static_cast<std::int32_t>(replica_),
                  .failed = failed_.load(std::memory_order_relaxed) == count};
  const auto timeOf = [&](std::size_t at) {
    const device::Stamp& stamp = (*times_)[at];
    return stamp.number.load(std::memory_order_acquire) == count + 1
               ? std::optional(stamp.time.load(std::memory_order_relaxed))
               : std::nullopt;
  };
  event.began = timeOf(timeIndex(count));
  event.ended = timeOf(timeIndex(count) + 1);
  return event;
}

void LaneRun::addEvents(std::vector<TaskEvent>& events) const {
  const std::int64_t kept = timed_ ? std::min(total_, timesKept_) : 0;
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < kept; ++i) {
    const std::int64_t number = (*times_)[2 * static_cast<std::size_t>(i)].number.load();
    if (number > 0) {
      counts.push_back(number - 1);
    }
  }
  if (const std::int64_t failed = failed_.load();
      kept > 0 && failed >= 0 && std::ranges::find(counts, failed) == counts.end()) {
    counts.push_back(failed);  // it failed before it began
  }
  std::ranges::sort(counts);
  const std::size_t last = std::min(counts.size(), static_cast<std::size_t>(kLastEvents));
  for (const std::int64_t count : std::span(counts).last(last)) {
    events.push_back(eventOf(count));
  }
}

std::int64_t LaneRun::priority(std::int64_t count) const {
  return round(count) * plans_.roundSpan + task(count).plannedStart;
}

void LaneRun::selectSlots(const Task& task,
                          std::int32_t round,
                          std::span<const device::Address> addresses) {
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

bool LaneRun::isInTask(std::span<const std::unique_ptr<LaneRun>> lanes) const {
  const std::int64_t count = done();
  // A task that is being issued may have begun as well.
  const std::int64_t begun = isTaken() ? std::min(issued() + 1, total_) : issued();
  if (!asynchronous_ || count >= begun) {
    return false;
  }
  bool waits = false;
  forEachWait(count, lanes, [&](const LaneRun& lane, std::int64_t awaited) {
    waits = lane.done() <= awaited;
    return !waits;
  });
  return !waits;
}

std::string LaneRun::report(std::span<const std::unique_ptr<LaneRun>> lanes) const {
  const std::int64_t count = std::min(done(), total_);
  std::string text = fmt::format("{} of device {}: finished {}",
                                 program::name(plan_.kind),
                                 plan_.device,
                                 count == 0 ? "nothing" : taskText(count - 1));
  const bool running = asynchronous_ ? isInTask(lanes) : isTaken();
  if (count < total_) {
    text += (running ? ", is running " : ", next is ") + taskText(count);
  }
  return text;
}

std::string LaneRun::firstTaskLeft() const {
  return fmt::format("{} of device {}: {}",
                     program::name(plan_.kind),
                     plan_.device,
                     taskText(std::min(done(), total_ - 1)));
}

}  // namespace sluice::runtime
