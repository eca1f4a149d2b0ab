#include "sluice/runtime/engine_threads.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
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
  for (const auto& lane : lanes) {
    const program::LaneKind kind = lane->plan().kind;
    const bool isMessage = lane->laneClass() == LaneClass::Remote &&
                           kind != program::LaneKind::Fetch && kind != program::LaneKind::Flush;
    messages += isMessage ? 1 : 0;
    remote += lane->laneClass() == LaneClass::Remote && !isMessage ? 1 : 0;
  }
  for (; remoteThreads < messages + std::min(remote, kMost); ++remoteThreads) {
    addThread(LaneClass::Remote);
  }
}

void EngineThreads::threadLoop(LaneClass laneClass, std::int32_t seen) {
  const Running counted;
  TaskRoom room;
  for (;;) {
    if (!spinUntil([&] { return step.load() != seen; })) {
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
      continue;
    }
    if (next.pending != nullptr) {
      if (next.pending->await(kGlance)) {
        failWithQueues();  // it is done, or will never be
      }
      continue;
    }
    if (spinUntil([&] { return signal.epoch.load() != epoch || over(); })) {
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

EngineThreads::Next EngineThreads::claimReady(LaneClass laneClass) {
  for (;;) {
    LaneRun* best = nullptr;
    const device::Event* pending = nullptr;
    std::int64_t bestPriority = std::numeric_limits<std::int64_t>::max();
    for (const auto& lane : job.lanes) {
      if (job.classOf(*lane) != laneClass || lane->isTaken() || lane->finished()) {
        continue;
      }
      const std::int64_t count = lane->issued();
      const std::int64_t priority = lane->priority(count);
      // Of equals a copy goes first: another device may be waiting for it. Of equal copies the
      // first one will do: a sum over replicas asks all of them whether it is ready.
      const auto copies = [](const LaneRun& l) {
        return l.plan().kind == program::LaneKind::Exchange;
      };
      const bool better = priority < bestPriority || (priority == bestPriority && copies(*lane) &&
                                                      (best == nullptr || !copies(*best)));
      if (better && lane->readiness(count, job.lanes, &pending) == Readiness::Ready) {
        best = lane.get();
        bestPriority = priority;
      }
    }
    if (best == nullptr) {
      return {.pending = pending};
    }
    if (best->claim()) {
      // Another thread may have issued that task in the meantime.
      if (!best->finished() && best->ready(best->issued(), job.lanes)) {
        return {.lane = best};
      }
      best->release();
    }
  }
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
    fail(std::current_exception());
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
  if (last && lanesLeft.fetch_sub(1) == 1) {
    wakeAll();
  }
}

}  // namespace sluice::runtime
