#include "sluice/runtime/engine_threads.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
#include "sluice/base/prompt_thread.h"
#include "sluice/base/spin.h"
#include "sluice/runtime/communicator.h"

namespace sluice::runtime {

using program::Task;

EngineThreads::EngineThreads(const std::vector<ModelState*>& all, const EngineOptions& given)
    : options(given), states(all), links(given.remoteBandwidth) {
  try {
    addThread(LaneClass::Host);
    growWorkers();
  } catch (...) {
    join();
    throw;
  }
}

void EngineThreads::join() {
  stop.store(true);
  step.fetch_add(1);
  step.notify_all();
  for (std::thread& thread : threads) {
    thread.join();
  }
  threads.clear();
}

void EngineThreads::growWorkers() {
  devices.clear();
  for (const ModelState* state : states) {
    addDevices(*state);
  }
}

void EngineThreads::addDevices(const ModelState& state) {
  devices.insert(devices.end(), state.devices().begin(), state.devices().end());
  const int wanted = options.workers > 0
                         ? options.workers
                         : std::clamp(static_cast<int>(devices.size()), 1, availableCores());
  for (; workers < wanted; ++workers) {
    addThread(LaneClass::Device);
  }
}

void EngineThreads::addThread(LaneClass laneClass) {
  threads.push_back(
      startThread(fmt::format("thread {} of the engine", threads.size() + 1),
                  [this, laneClass, seen = step.load()] { threadLoop(laneClass, seen); }));
}

void EngineThreads::growRemote(std::span<const std::unique_ptr<LaneRun>> lanes) {
  constexpr std::size_t kMost = 32;
  std::size_t remote = 0;
  std::size_t messages = 0;
  std::size_t sends = 0;
  for (const auto& lane : lanes) {
    const program::LaneKind kind = lane->plan().kind;
    const bool isMessage = lane->laneClass() == LaneClass::Remote &&
                           kind != program::LaneKind::Fetch && kind != program::LaneKind::Flush;
    messages += isMessage ? 1 : 0;
    remote += lane->laneClass() == LaneClass::Remote && !isMessage ? 1 : 0;
    sends += lane->laneClass() == LaneClass::Send ? 1 : 0;
  }
  for (; remoteThreads < messages + std::min(remote, kMost); ++remoteThreads) {
    addThread(LaneClass::Remote);
  }
  for (; sendThreads < sends; ++sendThreads) {
    addThread(LaneClass::Send);
  }
}

namespace {

/// Cores that a thread leaves to others while it looks around. What waits for remote memory or for
/// the host's code takes no core away from kernels and from the caller.
int spareCores(LaneClass laneClass) {
  return laneClass == LaneClass::Device ? 0 : 2;
}

}  // namespace

void EngineThreads::threadLoop(LaneClass laneClass, std::int32_t seen) {
  const Running counted;
  TaskRoom room;
  if (laneClass == LaneClass::Remote || laneClass == LaneClass::Send) {
    becomePrompt();  // it waits for others, and others for it
  }
  for (;;) {
    if (!spinUntil([&] { return step.load() != seen; }, spareCores(laneClass))) {
      const Sleeping asleep;
      step.wait(seen);
    }
    seen = step.load();
    if (stop.load()) {
      return;
    }
    try {
      const Turn::Work work(marks);
      room.sources.reserve(job.replicas());
      runTasks(laneClass, room);
    } catch (DeviceError& error) {
      addTasksInWork(error);
      fail(std::current_exception());
    } catch (...) {
      fail(std::current_exception());
    }
    const std::scoped_lock lock(mutex);
    if (--running == 0) {
      ended.notify_all();
    }
  }
}

namespace {

std::string textOf(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace

bool EngineThreads::fail(std::exception_ptr error) {
  {
    const std::scoped_lock lock(mutex);
    if (!active || failure) {
      return false;
    }
    failure = std::move(error);
    failed.store(true);
    // With the mutex, so that run() cannot return and end their lives meanwhile.
    args->feed.interrupt();
    args->sink.interrupt();
    links.interrupt();
    if (args->peers != nullptr) {
      Communicator& all = args->peers->communicator;
      all.interrupt(fmt::format("the step of rank {} has failed: {}", all.rank(), textOf(failure)));
    }
    ended.notify_all();
  }
  wakeAll();
  return true;
}

void EngineThreads::attempt(FunctionRef<void()> part) {
  if (failed.load()) {
    return;
  }
  try {
    const Turn::Work work(marks);
    part();
  } catch (DeviceError& error) {
    addTasksInWork(error);
    fail(std::current_exception());
  } catch (...) {
    fail(std::current_exception());
  }
}

void EngineThreads::wakeAll() {
  for (Signal& signal : signals) {
    signal.epoch.fetch_add(1);
    signal.epoch.notify_all();
  }
}

void EngineThreads::runTasks(LaneClass laneClass, TaskRoom& room) {
  const bool idle = std::ranges::none_of(
      job.lanes, [&](const auto& lane) { return job.classOf(*lane) == laneClass; });
  if (idle && laneClass != LaneClass::Device) {
    return;
  }
  Signal& signal = signals[static_cast<std::size_t>(laneClass)];
  while (!over()) {
    const std::int32_t epoch = signal.epoch.load();
    const Next next = claimReady(laneClass);
    if (next.lane != nullptr) {
      runNext(*next.lane, room);
      if (laneClass == LaneClass::Send) {
        signal.raise();
      }
      continue;
    }
    if (next.pending != nullptr) {
      if (next.pending->await(kGlance)) {
        failWithQueues();  // it is done, or will never be
      }
      continue;
    }
    if (spinUntil([&] { return signal.epoch.load() != epoch || over(); }, spareCores(laneClass))) {
      continue;
    }
    const Sleeping asleep;
    signal.sleepers.fetch_add(1);
    if (!over()) {
      signal.epoch.wait(epoch);
    }
    signal.sleepers.fetch_sub(1);
  }
}

namespace {

/// Lanes are taken up in ascending order of this: by planned start, and of equals copies first, for
/// which other devices may be waiting.
std::int64_t rankOf(const LaneRun& lane, std::int64_t count) {
  const bool copies = lane.plan().kind == program::LaneKind::Exchange;
  return 2 * lane.priority(count) + (copies ? 0 : 1);
}

}  // namespace

EngineThreads::Next EngineThreads::lookForReady(LaneClass laneClass) {
  Search& search = searches[static_cast<std::size_t>(laneClass)];
  const std::size_t first = search.first.load(std::memory_order_relaxed);
  const std::int64_t floor = search.floor.load(std::memory_order_relaxed);
  Next next;
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::int64_t least = best;
  std::size_t looked = 0;
  for (; looked < job.lanes.size() && best > floor; ++looked) {
    LaneRun& lane = *job.lanes[(first + looked) % job.lanes.size()];
    if (job.classOf(lane) != laneClass || lane.finished()) {
      continue;
    }
    const std::int64_t count = lane.issued();
    const std::int64_t rank = rankOf(lane, count);
    least = std::min(least, rank);
    if (rank < best && !lane.isTaken() &&
        lane.readiness(count, job.lanes, &next.pending) == Readiness::Ready) {
      next.lane = &lane;
      best = rank;
      search.first.store((first + looked) % job.lanes.size(), std::memory_order_relaxed);
    }
  }
  if (looked == job.lanes.size()) {
    search.floor.store(least, std::memory_order_relaxed);
  }
  search.looks.fetch_add(static_cast<std::int64_t>(looked), std::memory_order_relaxed);
  return next;
}

EngineThreads::Next EngineThreads::claimReady(LaneClass laneClass) {
  for (;;) {
    const Next next = lookForReady(laneClass);
    if (next.lane == nullptr) {
      return next;
    }
    if (next.lane->claim()) {
      // Another thread may have issued that task in the meantime.
      if (!next.lane->finished() && next.lane->ready(next.lane->issued(), job.lanes)) {
        return {.lane = next.lane};
      }
      next.lane->release();
      // Whoever has issued a task and found this lane taken relies on the look that follows, which
      // sees that task: of two writers of this, the second sees what the first did before.
      signals[static_cast<std::size_t>(laneClass)].epoch.fetch_add(1);
    }
  }
}

bool EngineThreads::sendAtOnce(TaskRoom& room) {
  Signal& signal = signals[static_cast<std::size_t>(LaneClass::Send)];
  while (!over()) {
    // Whoever gives up a lane writes this, too, before it looks again: of two that meet at a lane
    // the second sees its next task.
    signal.epoch.fetch_add(1);
    const Next next = claimReady(LaneClass::Send);
    if (next.lane == nullptr) {
      return next.pending == nullptr;
    }
    if (!leavesAtOnce(job, *next.lane)) {
      next.lane->release();
      return false;
    }
    runNext(*next.lane, room);
  }
  return true;
}

std::string EngineThreads::placeOf(const LaneRun& lane, std::int64_t count) {
  const Task& task = lane.task(count);
  return fmt::format("{} of micro-batch {}, round {}, device {}",
                     program::name(task.kind),
                     task.microBatch,
                     lane.round(count),
                     lane.plan().device);
}

void EngineThreads::runTaskAt(LaneRun& lane, std::int64_t count, TaskRoom& room) {
  try {
    lane.beginTask(count, job.lanes);
    runTask(job, lane, count, room);
    lane.endTask(count);
  } catch (DeviceError& error) {
    error.at(placeOf(lane, count));
    addTasksInWork(error);
    throw;
  } catch (Error& error) {
    error.at(placeOf(lane, count));
    throw;
  }
}

void EngineThreads::runNext(LaneRun& lane, TaskRoom& room) {
  const std::int64_t count = lane.issued();
  try {
    if (options.beforeTask) {
      options.beforeTask(static_cast<std::size_t>(&lane.plan() - job.program->lanes.data()), count);
    }
    runTaskAt(lane, count, room);
  } catch (...) {
    if (fail(std::current_exception())) {  // else it follows from another failure
      lane.noteFailure(count);
    }
    lane.release();  // after the failure: nobody takes it up again
    return;
  }
  const bool last = lane.isLast(count);  // the next task may be over before this one returns
  lane.issue(count + 1);
  lane.release();
  tasksDone.fetch_add(1, std::memory_order_relaxed);
  const bool device = lane.signals(count, LaneClass::Device);
  const bool host = lane.signals(count, LaneClass::Host);
  if (device || (host && job.workersServeHost)) {
    signals[static_cast<std::size_t>(LaneClass::Device)].raise();
  }
  if (host && !job.workersServeHost) {
    signals[static_cast<std::size_t>(LaneClass::Host)].raise();
  }
  // Remote tasks of one lane follow each other in any of their threads.
  if (lane.signals(count, LaneClass::Remote) || lane.laneClass() == LaneClass::Remote) {
    signals[static_cast<std::size_t>(LaneClass::Remote)].raise();
  }
  // A thread that would have to be woken for it comes late where kernels run on all cores.
  if (lane.signals(count, LaneClass::Send) && !sendAtOnce(room)) {
    signals[static_cast<std::size_t>(LaneClass::Send)].raise();
  }
  if (last && lanesLeft.fetch_sub(1) == 1) {
    wakeAll();
  }
}

}  // namespace sluice::runtime
