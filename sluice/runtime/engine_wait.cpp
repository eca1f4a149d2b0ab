// How the caller of a step waits for its end: for threads and queues, with a watch on both, and
// what is said when they do not come back.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/spin.h"
#include "sluice/base/wait_watch.h"
#include "sluice/runtime/engine_threads.h"

namespace sluice::runtime {

void EngineThreads::failWithQueues() {
  const std::scoped_lock lock(failing);
  for (const auto& lane : job.lanes) {
    if (failed.load()) {
      return;
    }
    if (!lane->isAsynchronous()) {
      continue;
    }
    const std::exception_ptr thrown = lane->queue().failure();
    if (thrown == nullptr) {
      continue;
    }
    try {
      std::rethrow_exception(thrown);
    } catch (const Cancelled&) {
      continue;  // the follow-up of another queue's failure
    } catch (Error& error) {
      failIn(*lane, error);
    } catch (...) {
      fail(std::current_exception());
    }
  }
}

void EngineThreads::failIn(LaneRun& lane, Error& error) {
  auto* const lost = dynamic_cast<DeviceError*>(&error);
  // All queues of a lost device report it, also those that were idle. A captured step is the work
  // of one queue.
  LaneRun& suspect = lost != nullptr || job.isCaptured ? suspectOf(lane) : lane;
  const std::int64_t task = std::min(suspect.done(), suspect.total() - 1);
  error.at(placeOf(suspect, task));
  if (lost != nullptr) {
    addTasksInWork(*lost);
  }
  if (fail(std::current_exception())) {
    suspect.noteFailure(task);
  }
}

LaneRun& EngineThreads::suspectOf(LaneRun& lane) const {
  LaneRun* suspect = nullptr;
  for (const auto& other : job.lanes) {
    const bool isNear = job.isCaptured || (other->plan().device == lane.plan().device &&
                                           other->replica() == lane.replica());
    if (isNear && other->isInTask(job.lanes)) {
      // Copies are held up by the loss more often than they cause it.
      if (other->plan().kind == program::LaneKind::Compute) {
        return *other;
      }
      suspect = suspect == nullptr ? other.get() : suspect;
    }
  }
  return suspect == nullptr ? lane : *suspect;
}

void EngineThreads::addTasksInWork(DeviceError& error) const {
  std::string tasks;
  for (const auto& lane : job.lanes) {
    if (lane->isInTask(job.lanes)) {
      tasks += (tasks.empty() ? "" : "; ") + lane->firstTaskLeft();
    }
  }
  if (!tasks.empty()) {
    error.at("tasks begun and not ended: " + tasks);
  }
}

std::string EngineThreads::reportOf(bool runningOnly) const {
  std::string report;
  for (const auto& lane : job.lanes) {
    const bool busy = lane->isTaken() || (lane->isAsynchronous() && !lane->queue().isIdle());
    if (lane->perRound() > 0 && (!runningOnly || busy)) {
      report += "\n  " + lane->report(job.lanes);
    }
  }
  return report;
}

void EngineThreads::giveUp() {
  std::string text = fmt::format(
      "stall: no task has ended for {} ms{}", options.stallTimeout.count(), reportOf(false));
  log::write("engine", log::Level::Error, text);
  fail(std::make_exception_ptr(DeviceError(std::move(text))));
}

std::int64_t EngineThreads::progress() const {
  std::int64_t done = tasksDone.load();
  for (const LaneRun* lane : queued) {
    done += lane->done();
  }
  return done;
}

bool EngineThreads::queuesAreDone() const {
  return std::ranges::all_of(queued, [](const LaneRun* l) { return l->done() >= l->total(); });
}

bool EngineThreads::isIdle() const {
  return running == 0 &&
         std::ranges::all_of(queued, [](const LaneRun* lane) { return lane->queue().isIdle(); });
}

void EngineThreads::forgetStep() {
  args.reset();
  queued.clear();
}

bool EngineThreads::awaitIdle(std::unique_lock<std::mutex>& lock,
                              std::chrono::milliseconds atMost) {
  const auto end = std::chrono::steady_clock::now() + atMost;
  while (!isIdle()) {
    const auto until = queued.empty() ? end : std::chrono::steady_clock::now() + kGlance;
    ended.wait_until(lock, std::min(until, end));
    if (std::chrono::steady_clock::now() >= end) {
      return isIdle();
    }
  }
  return true;
}

void EngineThreads::awaitEnd() {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  const auto threadsAreOut = [&] { return running.load() == 0 || failed.load(); };
  {
    const Running counted;
    spinUntil(threadsAreOut);  // short steps end before the caller could fall asleep
  }
  std::unique_lock lock(mutex);
  const bool watched = options.stallTimeout.count() > 0;
  if (queued.empty() && !watched) {
    waitWatched(ended, lock, threadsAreOut, [this] { lookAround(); });
  }
  milliseconds period = queued.empty() ? WaitWatch::kPeriod : 10 * kGlance;
  if (watched) {
    period = std::min(period, options.stallTimeout);
  }
  std::int64_t before = progress();
  auto moved = steady_clock::now();
  while (failure == nullptr && !(running == 0 && queuesAreDone())) {
    if (running != 0) {
      ended.wait_for(lock, period, threadsAreOut);
    }
    if (failure != nullptr) {
      break;
    }
    const bool issued = running == 0;
    lock.unlock();
    lookAround();
    glance(issued);
    const std::int64_t done = progress();
    moved = done == before ? moved : steady_clock::now();
    before = done;
    if (watched && !(issued && queuesAreDone()) &&
        steady_clock::now() - moved >= options.stallTimeout) {
      giveUp();
    }
    lock.lock();
  }
  if (failure != nullptr) {
    awaitIdle(lock, options.stopGrace);
    return;
  }
  for (LaneRun* lane : queued) {
    lane->queue().finish();
  }
}

void EngineThreads::lookAround() const {
  const Turn::Work work(marks);
  WaitWatch::look();
}

void EngineThreads::glance(bool wait) {
  const auto left =
      std::ranges::find_if(queued, [](const LaneRun* l) { return l->done() < l->total(); });
  if (wait && left != queued.end()) {
    (*left)->event((*left)->total() - 1).await(kGlance);
  }
  if (!queued.empty()) {
    failWithQueues();
  }
}

void EngineThreads::finish() {
  std::exception_ptr error;
  bool idle = false;
  {
    const std::scoped_lock lock(mutex);
    active = false;
    error = failure;
    idle = isIdle();
    if (idle) {
      forgetStep();
    }
  }
  if (!error) {
    return;
  }
  try {
    std::rethrow_exception(error);
  } catch (Error& each) {
    if (!idle) {
      each.at("a step that ended early, whose threads have not all come back yet:" +
              reportOf(true));
    }
    throw;
  }
}

void EngineThreads::requireIdle() {
  std::unique_lock lock(mutex);
  if (!awaitIdle(lock, options.stopGrace)) {
    raise<DeviceError>(
        "an earlier step ended early, and a function that it called has not returned yet, so "
        "that nothing more can be run; still running are:{}",
        reportOf(true));
  }
  forgetStep();
}

}  // namespace sluice::runtime
