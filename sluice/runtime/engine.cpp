#include "sluice/runtime/engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "sluice/base/cancelled.h"
#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
#include "sluice/base/log.h"
#include "sluice/runtime/checked_segment.h"
#include "sluice/runtime/communicator.h"
#include "sluice/runtime/lane_devices.h"
#include "sluice/runtime/lane_run.h"
#include "sluice/runtime/prepared_segment.h"
#include "sluice/runtime/remote_link.h"
#include "sluice/runtime/step_job.h"

namespace sluice::runtime {
namespace {

using program::Program;
using program::Task;

/// How long the host waits for a queue before it looks around again.
constexpr std::chrono::milliseconds kGlance{2};

}  // namespace

LoadedProgram::LoadedProgram(program::Program program) : program_(std::move(program)) {}
LoadedProgram::~LoadedProgram() = default;

std::size_t LoadedProgram::tableEntries() const {
  std::size_t count = addresses_.size() + (plans_ != nullptr ? plans_->entries() : 0);
  for (const auto& lane : lanes_) {
    count += lane->addresses().size();
  }
  return count;
}

std::size_t LoadedProgram::captures() const {
  std::size_t count = 0;
  for (const auto& lane : lanes_) {
    count += lane->numCaptures();
  }
  return count;
}

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): one per engine
struct Engine::Impl {
  /// What sleeping threads of one class wait for: raised when a task of theirs may be ready.
  struct alignas(64) Signal {
    std::atomic<std::int32_t> epoch{0};
    std::atomic<std::int32_t> sleepers{0};

    void raise() {
      epoch.fetch_add(1);
      if (sleepers.load() > 0) {
        epoch.notify_all();
      }
    }
  };

  EngineOptions options;
  const std::vector<ModelState*>& states;
  std::vector<device::Device*> devices;  // of all states; grows between steps only
  std::vector<std::thread> threads;
  int workers = 0;                 // of the threads
  StepJob job;                     // written before `step` is raised, read by the threads after
  std::optional<StepArgs> args;    // of the job; kept while a thread is in the step
  std::vector<Turn::Mark> marks;   // for whom the step's threads work
  std::atomic<bool> wrote{false};  // the step has begun to write state
  std::atomic<std::int32_t> step{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};
  std::atomic<std::int32_t> lanesLeft{0};
  std::array<Signal, kLaneClasses> signals;  // by LaneClass
  std::size_t remoteThreads = 0;
  RemoteLinks links;
  std::atomic<std::int64_t> tasksDone{0};
  // The end of a step, and its first error.
  std::mutex failing;        // one at a time adds to the error of a queue
  mutable std::mutex mutex;  // guards all below
  std::condition_variable ended;
  std::size_t running = 0;       // threads that are in the step
  std::vector<LaneRun*> queued;  // whose queues may have work of the step
  bool active = false;           // run() has not returned
  std::exception_ptr failure;

  Impl(const std::vector<ModelState*>& all, const EngineOptions& given)
      : options(given), states(all), links(given.remoteBandwidth) {
    try {
      addThread(LaneClass::Host);
      growWorkers();
    } catch (...) {
      join();
      throw;
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { join(); }

  void join() {
    stop.store(true);
    step.fetch_add(1);
    step.notify_all();
    for (std::thread& thread : threads) {
      thread.join();
    }
    threads.clear();
  }

  /// Between steps only.
  void growWorkers() {
    devices.clear();
    for (const ModelState* state : states) {
      addDevices(*state);
    }
  }

  void addDevices(const ModelState& state) {
    devices.insert(devices.end(), state.devices().begin(), state.devices().end());
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const int wanted = options.workers > 0 ? options.workers
                                           : std::clamp(static_cast<int>(devices.size()), 1, cores);
    for (; workers < wanted; ++workers) {
      addThread(LaneClass::Device);
    }
  }

  void addThread(LaneClass laneClass) {
    threads.push_back(
        startThread(fmt::format("thread {} of the engine", threads.size() + 1),
                    [this, laneClass, seen = step.load()] { threadLoop(laneClass, seen); }));
  }

  /// As many as may wait for remote memory or other owners at a time; between steps only. Whoever
  /// waits for another owner must keep nobody from sending, so their lanes have a thread each.
  void growRemote(std::span<const std::unique_ptr<LaneRun>> lanes) {
    constexpr std::size_t kMost = 32;
    std::size_t remote = 0;
    std::size_t messages = 0;
    for (const auto& lane : lanes) {
      const program::LaneKind kind = lane->plan().kind;
      const bool isMessage = kind == program::LaneKind::Send || kind == program::LaneKind::Receive;
      messages += isMessage ? 1 : 0;
      remote += lane->laneClass() == LaneClass::Remote && !isMessage ? 1 : 0;
    }
    for (; remoteThreads < messages + std::min(remote, kMost); ++remoteThreads) {
      addThread(LaneClass::Remote);
    }
  }

  void threadLoop(LaneClass laneClass, std::int32_t seen) {
    TaskRoom room;
    for (;;) {
      step.wait(seen);
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

  /// Ends the step. False: it has ended already.
  bool fail(std::exception_ptr error) {
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
        args->peers->communicator.interrupt("the step of another owner has failed");
      }
      ended.notify_all();
    }
    wakeAll();
    return true;
  }

  void wakeAll() {
    for (Signal& signal : signals) {
      signal.epoch.fetch_add(1);
      signal.epoch.notify_all();
    }
  }

  bool over() const { return failed.load() || lanesLeft.load() == 0; }

  /// Runs ready tasks of a class until the step is over.
  void runTasks(LaneClass laneClass, TaskRoom& room) {
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
      signal.sleepers.fetch_add(1);
      if (!over()) {
        signal.epoch.wait(epoch);
      }
      signal.sleepers.fetch_sub(1);
    }
  }

  struct Next {
    LaneRun* lane = nullptr;                 ///< claimed for this thread, or:
    const device::Event* pending = nullptr;  ///< what a task waits for that has been issued
  };

  /// The lane whose next task is ready and planned earliest.
  Next claimReady(LaneClass laneClass) {
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
        // Of equals a copy goes first: another device may be waiting for it.
        const bool better =
            priority < bestPriority ||
            (priority == bestPriority && lane->plan().kind == program::LaneKind::Exchange);
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

  static std::string placeOf(const LaneRun& lane, std::int64_t count) {
    const Task& task = lane.task(count);
    return fmt::format("{} of micro-batch {}, round {}, device {}",
                       program::name(task.kind),
                       task.microBatch,
                       lane.round(count),
                       lane.plan().device);
  }

  void runTaskAt(LaneRun& lane, std::int64_t count, TaskRoom& room) {
    try {
      lane.beginTask(count, job.lanes);
      runTask(job, lane, count, room);
      lane.endTask(count);
    } catch (Error& error) {
      error.at(placeOf(lane, count));
      throw;
    }
  }

  /// Ends the step if something went wrong in a queue. The task is the one that has not ended.
  void failWithQueues() {
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
        error.at(placeOf(*lane, std::min(lane->done(), lane->total() - 1)));
        fail(std::current_exception());
      } catch (...) {
        fail(std::current_exception());
      }
    }
  }

  void runNext(LaneRun& lane, TaskRoom& room) {
    const std::int64_t count = lane.issued();
    try {
      if (options.beforeTask) {
        options.beforeTask(static_cast<std::size_t>(&lane.plan() - job.program->lanes.data()),
                           count);
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

  std::string reportOf(bool runningOnly) const {
    std::string report;
    for (const auto& lane : job.lanes) {
      const bool busy = lane->isTaken() || (lane->isAsynchronous() && !lane->queue().isIdle());
      if (lane->perRound() > 0 && (!runningOnly || busy)) {
        report += "\n  " + lane->report();
      }
    }
    return report;
  }

  void giveUp() {
    std::string text = fmt::format(
        "stall: no task has ended for {} ms{}", options.stallTimeout.count(), reportOf(false));
    log::write("engine", log::Level::Error, text);
    fail(std::make_exception_ptr(DeviceError(std::move(text))));
  }

  /// Tasks that are done, for whoever watches that something moves.
  std::int64_t progress() const {
    std::int64_t done = tasksDone.load();
    for (const LaneRun* lane : queued) {
      done += lane->done();
    }
    return done;
  }

  bool queuesAreDone() const {
    return std::ranges::all_of(queued, [](const LaneRun* l) { return l->done() >= l->total(); });
  }

  /// Whether neither a thread nor a queue has anything left of the step; with the mutex.
  bool isIdle() const {
    return running == 0 &&
           std::ranges::all_of(queued, [](const LaneRun* lane) { return lane->queue().isIdle(); });
  }

  /// Nobody needs what the step was given any more; with the mutex, once it is idle.
  void forgetStep() {
    args.reset();
    queued.clear();
  }

  /// Waits until it is, at most so long; with the mutex. Queues tell nobody when they are done.
  bool awaitIdle(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds atMost) {
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

  /// Waits for the threads to leave the step and for the queues; gives it up when nothing moves for
  /// too long. Once the step has failed it waits for a bounded time.
  void awaitEnd() {
    using namespace std::chrono;
    std::unique_lock lock(mutex);
    const auto threadsAreOut = [&] { return running == 0 || failure != nullptr; };
    const bool watched = options.stallTimeout.count() > 0;
    if (queued.empty() && !watched) {
      ended.wait(lock, threadsAreOut);
    }
    const milliseconds period =
        queued.empty() ? options.stallTimeout
                       : (watched ? std::min(10 * kGlance, options.stallTimeout) : 10 * kGlance);
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

  /// Waits a moment for the queues, if there is nothing else to wait for, and looks at them.
  void glance(bool wait) {
    const auto left =
        std::ranges::find_if(queued, [](const LaneRun* l) { return l->done() < l->total(); });
    if (wait && left != queued.end()) {
      (*left)->event((*left)->total() - 1).await(kGlance);
    }
    if (!queued.empty()) {
      failWithQueues();
    }
  }

  /// Rethrows the step's error, and says who is left behind.
  void finish() {
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

  void requireIdle() {
    std::unique_lock lock(mutex);
    if (!awaitIdle(lock, options.stopGrace)) {
      raise<DeviceError>(
          "an earlier step ended early, and a function that it called has not returned yet, so "
          "that nothing more can be run; still running are:{}",
          reportOf(true));
    }
    forgetStep();
  }
};

Engine::Engine(ModelState& state, const EngineOptions& options)
    : states_{&state}, impl_(std::make_unique<Impl>(states_, options)) {}

Engine::~Engine() = default;

void Engine::addReplica(ModelState& state) {
  states_.push_back(&state);
  impl_->addDevices(state);
}

void Engine::growWorkers() {
  impl_->growWorkers();
}

/// Of every replica, one behind the other.
void Engine::makeKernels(LoadedProgram& loaded, CheckFinite check) {
  const std::size_t segments = loaded.program_.segments.size();
  const bool checked = check == CheckFinite::Yes;
  loaded.calls_.resize(checked ? segments : 0);
  loaded.checked_.resize(checked ? segments * loaded.replicas_ : 0);
  loaded.segments_.resize(checked ? 0 : segments * loaded.replicas_);
  for (std::size_t s = 0; s < segments; ++s) {
    const program::Segment& segment = loaded.program_.segments[s];
    std::vector<device::KernelCall> calls = loaded.plans_->callsOf(segment);
    for (std::size_t r = 0; r < loaded.replicas_; ++r) {
      device::Device& device = *states_[r]->devices()[static_cast<std::size_t>(segment.device)];
      if (!checked) {
        loaded.segments_[r * segments + s] = std::make_unique<PreparedSegment>(device, calls);
        continue;
      }
      if (r == 0) {
        loaded.calls_[s] = std::move(calls);
      }
      loaded.checked_[r * segments + s] =
          std::make_unique<CheckedSegment>(device, segment, loaded.calls_[s]);
    }
  }
}

namespace {

/// A queue begins a step without the failures of another one.
void forget(device::Queue& queue) {
  try {
    queue.finish();
  } catch (...) {
    log::debug("engine", "a queue begins anew after a failure");
  }
}

}  // namespace

std::unique_ptr<LoadedProgram> Engine::load(program::Program program,
                                            std::size_t replicas,
                                            CheckFinite check) {
  auto loaded = std::make_unique<LoadedProgram>(std::move(program));
  loaded->serial_ = ++lastSerial_;
  loaded->replicas_ = replicas;
  const Program& p = loaded->program_;
  SLUICE_CHECK(replicas <= states_.size() && p.devices.size() <= states_[0]->devices().size(),
               "a program for {} replicas of {} devices on an engine of {} of {}",
               replicas,
               p.devices.size(),
               states_.size(),
               states_[0]->devices().size());
  requireStaged(p, states_[0]->devices());
  loaded->plans_ = std::make_unique<LanePlans>(p);
  loaded->laggards_ = std::make_unique<Laggards>(p.lanes.size());
  makeKernels(*loaded, check);
  for (std::size_t r = 0; r < replicas; ++r) {
    const std::vector<device::Device*>& devices = states_[r]->devices();
    for (std::size_t l = 0; l < p.lanes.size(); ++l) {
      loaded->lanes_.push_back(std::make_unique<LaneRun>(
          *loaded->plans_, *loaded->laggards_, l, r, queueDevice(p.lanes[l], devices)));
    }
  }
  impl_->growRemote(loaded->lanes_);
  return loaded;
}

std::uint64_t Engine::generation(const LoadedProgram& loaded) const {
  std::uint64_t sum = 0;
  for (std::size_t r = 0; r < loaded.replicas_; ++r) {
    sum += states_[r]->generation();
  }
  return sum;
}

void Engine::refreshAddresses(LoadedProgram& loaded) {
  const Program& program = loaded.program_;
  for (std::size_t r = 0; r < loaded.replicas_; ++r) {
    for (std::size_t d = 0; d < program.devices.size(); ++d) {
      states_[r]->reserveTransient(static_cast<std::int32_t>(d), program.devices[d].transientBytes);
    }
    states_[r]->reserveTransient(program::kRemote, program.remote.transientBytes);
    for (std::size_t d = 0; d < program.devices.size(); ++d) {
      states_[r]->reserveStaging(static_cast<std::int32_t>(d), program.devices[d].stagingBytes);
    }
  }
  if (!loaded.addresses_.empty() && loaded.generation_ == generation(loaded)) {
    return;
  }
  loaded.addresses_.clear();
  for (std::size_t r = 0; r < loaded.replicas_; ++r) {
    for (const program::Buffer& buffer : program.buffers) {
      if (buffer.isRemote()) {
        loaded.addresses_.emplace_back();  // only fetches and flushes use it
        continue;
      }
      const device::Memory* const arena = buffer.region == program::Region::State
                                              ? states_[r]->state(buffer.device)
                                              : states_[r]->transient(buffer.device);
      const std::size_t end = buffer.offset + buffer.totalBytes();
      SLUICE_CHECK(end <= (arena != nullptr ? arena->bytes() : 0),
                   "buffer '{}' ends at {} of an arena of {} bytes",
                   buffer.name,
                   end,
                   arena != nullptr ? arena->bytes() : 0);
      loaded.addresses_.push_back({arena, buffer.offset});
    }
  }
  loaded.generation_ = generation(loaded);
}

void Engine::makeCurrent(const LoadedProgram& loaded) {
  if (currentSerial_ == loaded.serial_ && currentGeneration_ == loaded.generation_) {
    return;
  }
  const Program& program = loaded.program_;
  for (std::size_t r = 0; r < loaded.replicas_; ++r) {
    states_[r]->bringTo(program);
    for (const program::Constant& constant : program.constants) {
      const program::Buffer& buffer = program.buffer(constant.buffer);
      device::copyIn(states_[r]->queueOf(buffer.device),
                     loaded.addresses_[r * program.buffers.size() + constant.buffer.index()],
                     constant.value.bytes(),
                     constant.value.byteCount());
    }
  }
  currentSerial_ = loaded.serial_;
  currentGeneration_ = loaded.generation_;
}

void Engine::prepare(LoadedProgram& loaded) {
  impl_->requireIdle();
  if (loaded.written_.segments.size() != loaded.program_.segments.size()) {
    loaded.written_ = writtenState(loaded.program_, states_[0]->plan());
  }
  refreshAddresses(loaded);
  makeCurrent(loaded);
}

bool Engine::wroteState() const {
  return impl_->wrote.load();
}

bool Engine::stop(std::exception_ptr error) {
  return impl_->fail(std::move(error));
}

bool Engine::isIdle() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->isIdle();
}

void Engine::requireIdle() {
  impl_->requireIdle();
}

void Engine::awaitIdle() {
  std::unique_lock lock(impl_->mutex);
  while (!impl_->awaitIdle(lock, std::chrono::seconds(1))) {
  }
  impl_->forgetStep();
}

void Engine::setBeforeTask(std::function<void(std::size_t lane, std::int64_t count)> hook) {
  impl_->options.beforeTask = std::move(hook);
}

void Engine::run(LoadedProgram& loaded, const StepArgs& given) {
  Impl& impl = *impl_;
  prepare(loaded);
  impl.args.emplace(given);
  const StepArgs& args = *impl.args;
  const std::span<const Turn::Mark> outer = Turn::Work::current();
  impl.marks.assign(outer.begin(), outer.end());
  impl.marks.push_back({args.turn});
  impl.links.begin();
  impl.wrote.store(false);
  impl.job = {.program = &loaded.program_,
              .lanes = loaded.lanes_,
              .segments = loaded.segments_,
              .checked = loaded.checked_,
              .addresses = loaded.addresses_,
              .states = {states_.data(), loaded.replicas_},
              .links = &impl.links,
              .args = &args,
              .written = &loaded.written_,
              .stopped = &impl.failed,
              .wrote = &impl.wrote,
              .workersServeHost = !args.feed.mayBlock() && !args.sink.mayBlock()};
  impl.failed.store(false);
  std::int32_t busy = 0;
  for (const auto& lane : loaded.lanes_) {
    if (lane->isAsynchronous()) {
      forget(lane->queue());
    }
    lane->queue().stopWhen(&impl.failed);
    lane->queue().useClock(impl.options.clock);
    lane->begin(args.rounds,
                impl.job.addressesOf(lane->replica()),
                loaded.generation_,
                args.times != nullptr);
    busy += lane->finished() ? 0 : 1;
  }
  impl.lanesLeft.store(busy);
  {
    const std::scoped_lock lock(impl.mutex);
    impl.failure = nullptr;
    impl.running = impl.threads.size();
    impl.active = true;
    impl.queued.clear();
    for (const auto& lane : loaded.lanes_) {
      if (lane->isAsynchronous() && !lane->finished()) {
        impl.queued.push_back(lane.get());
      }
    }
  }
  impl.step.fetch_add(1);
  impl.step.notify_all();
  if (args.turn != nullptr && args.turn->isCancelled()) {
    impl.fail(std::make_exception_ptr(Cancelled("the call was cancelled before its step began")));
  }
  impl.awaitEnd();
  if (args.times != nullptr && !impl.failed.load()) {
    for (const auto& lane : loaded.lanes_) {
      lane->addTimes(*args.times);
    }
  }
  impl.finish();
}

}  // namespace sluice::runtime
