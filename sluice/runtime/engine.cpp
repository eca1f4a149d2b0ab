#include "sluice/runtime/engine.h"

#include <algorithm>
#include <exception>
#include <mutex>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/runtime/checked_segment.h"
#include "sluice/runtime/engine_threads.h"
#include "sluice/runtime/lane_devices.h"
#include "sluice/runtime/lane_run.h"
#include "sluice/runtime/prepared_segment.h"
#include "sluice/runtime/shared_sums.h"
#include "sluice/runtime/step_capture.h"
#include "sluice/runtime/step_job.h"

namespace sluice::runtime {
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

bool LoadedProgram::isStepCaptured() const {
  return steps_->count() > 0;
}

Engine::Engine(ModelState& state, const EngineOptions& options)
    : states_{&state}, threads_(std::make_unique<EngineThreads>(states_, options)) {}

Engine::~Engine() = default;

void Engine::addReplica(ModelState& state) {
  states_.push_back(&state);
  threads_->addDevices(state);
}

void Engine::growWorkers() {
  threads_->growWorkers();
}

/// Of every replica, one behind the other.
void Engine::makeKernels(LoadedProgram& loaded, const Watch& watch) {
  const std::size_t segments = loaded.program_.segments.size();
  const bool checked = watch.any();
  loaded.calls_.resize(checked ? segments : 0);
  loaded.checked_.resize(checked ? segments * loaded.replicas_ : 0);
  loaded.segments_.resize(checked ? 0 : segments * loaded.replicas_);
  for (std::size_t s = 0; s < segments; ++s) {
    const program::Segment& segment = loaded.program_.segments[s];
    const std::vector<device::KernelCall> calls = loaded.plans_->callsOf(segment);
    if (checked) {
      loaded.calls_[s] = calls;  // read by every step
    }
    for (std::size_t r = 0; r < loaded.replicas_ && states_[0]->isHere(segment.device); ++r) {
      device::Device& device = *states_[r]->devices()[static_cast<std::size_t>(segment.device)];
      if (checked) {
        loaded.checked_[r * segments + s] =
            std::make_unique<CheckedSegment>(device, segment, loaded.calls_[s], watch);
      } else {
        loaded.segments_[r * segments + s] = std::make_unique<PreparedSegment>(device, calls);
      }
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
                                            const Watch& watch,
                                            Replicas where) {
  auto loaded = std::make_unique<LoadedProgram>(std::move(program));
  loaded->serial_ = ++lastSerial_;
  loaded->replicas_ = replicas;
  loaded->watch_ = watch;
  const program::Program& p = loaded->program_;
  SLUICE_CHECK(replicas <= states_.size() && p.devices.size() <= states_[0]->devices().size(),
               "a program for {} replicas of {} devices on an engine of {} of {}",
               replicas,
               p.devices.size(),
               states_.size(),
               states_[0]->devices().size());
  requireStaged(p, states_[0]->devices());
  loaded->plans_ = std::make_unique<LanePlans>(p, where);
  if (where == Replicas::Apart) {
    loaded->sums_ = std::make_unique<SharedSums>(replicas);
  }
  loaded->laggards_ = std::make_unique<Laggards>(p.lanes.size());
  loaded->steps_ = std::make_unique<StepCaptures>();
  makeKernels(*loaded, watch);
  for (std::size_t r = 0; r < replicas; ++r) {
    const std::vector<device::Device*>& devices = states_[r]->devices();
    for (std::size_t l = 0; l < p.lanes.size(); ++l) {
      loaded->lanes_.push_back(std::make_unique<LaneRun>(
          *loaded->plans_, *loaded->laggards_, l, r, queueDevice(p.lanes[l], devices)));
    }
  }
  threads_->growRemote(loaded->lanes_);
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
  const program::Program& program = loaded.program_;
  for (std::size_t r = 0; r < loaded.replicas_; ++r) {
    states_[r]->reserveTransient(program::kRemote, program.remote.transientBytes);
    for (std::size_t d = 0; d < program.devices.size(); ++d) {
      const auto device = static_cast<std::int32_t>(d);
      if (states_[r]->isHere(device)) {
        states_[r]->reserveTransient(device, program.devices[d].transientBytes);
        states_[r]->reserveStaging(device, program.devices[d].stagingBytes);
      }
    }
  }
  if (!loaded.addresses_.empty() && loaded.generation_ == generation(loaded)) {
    return;
  }
  loaded.addresses_.clear();
  for (std::size_t r = 0; r < loaded.replicas_; ++r) {
    for (const program::Buffer& buffer : program.buffers) {
      if (buffer.isRemote() || !states_[r]->isHere(buffer.device)) {
        loaded.addresses_.emplace_back();  // only fetches and flushes use it, or another owner
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
  const program::Program& program = loaded.program_;
  for (std::size_t r = 0; r < loaded.replicas_; ++r) {
    states_[r]->bringTo(program);
    for (const program::Constant& constant : program.constants) {
      const program::Buffer& buffer = program.buffer(constant.buffer);
      if (!states_[r]->isHere(buffer.device)) {
        continue;
      }
      device::copyIn(states_[r]->queueOf(buffer.device),
                     loaded.addresses_[r * program.buffers.size() + constant.buffer.index()],
                     constant.value.bytes(),
                     constant.value.byteCount());
    }
  }
  currentSerial_ = loaded.serial_;
  currentGeneration_ = loaded.generation_;
  packedWrites_.reset();
}

std::uint64_t Engine::writes(const LoadedProgram& loaded) const {
  std::uint64_t sum = 0;
  for (std::size_t r = 0; r < loaded.replicas_; ++r) {
    sum += states_[r]->writes();
  }
  return sum;
}

void Engine::prepare(LoadedProgram& loaded) {
  threads_->requireIdle();
  if (loaded.written_.segments.size() != loaded.program_.segments.size()) {
    loaded.written_ = writtenState(loaded.program_, states_[0]->plan());
  }
  refreshAddresses(loaded);
  makeCurrent(loaded);
}

bool Engine::wroteState() const {
  return threads_->wrote.load();
}

std::int64_t Engine::lanesLookedAt() const {
  std::int64_t looks = 0;
  for (const EngineThreads::Search& search : threads_->searches) {
    looks += search.looks.load();
  }
  return looks;
}

bool Engine::stop(std::exception_ptr error) {
  return threads_->fail(std::move(error));
}

bool Engine::isIdle() const {
  const std::scoped_lock lock(threads_->mutex);
  return threads_->isIdle();
}

void Engine::requireIdle() {
  threads_->requireIdle();
}

void Engine::awaitIdle() {
  std::unique_lock lock(threads_->mutex);
  while (!threads_->awaitIdle(lock, std::chrono::seconds(1))) {
  }
  threads_->forgetStep();
}

void Engine::setBeforeTask(std::function<void(std::size_t lane, std::int64_t count)> hook) {
  threads_->options.beforeTask = std::move(hook);
}

void Engine::keepEvents(const LoadedProgram& loaded) {
  for (const auto& lane : loaded.lanes_) {
    lane->addEvents(lastEvents_);
  }
}

void Engine::beginLanes(const LoadedProgram& loaded, const StepArgs& args) {
  EngineThreads& threads = *threads_;
  std::int32_t busy = 0;
  for (const auto& lane : loaded.lanes_) {
    if (lane->isAsynchronous()) {
      forget(lane->queue());
    }
    lane->queue().stopWhen(&threads.failed);
    lane->queue().useClock(threads.options.clock);
    lane->begin(args.rounds,
                threads.job.addressesOf(lane->replica()),
                loaded.generation_,
                args.times != nullptr ? LaneTimes::All
                : args.keepsEvents    ? LaneTimes::Last
                                      : LaneTimes::None);
    busy += lane->finished() ? 0 : 1;
  }
  threads.lanesLeft.store(busy);
}

StepCapture* Engine::captureOf(LoadedProgram& loaded, const StepArgs& args) {
  const EngineThreads& threads = *threads_;
  if (threads.options.beforeTask || threads.options.remoteBandwidth > 0) {
    return nullptr;
  }
  StepCapture* const capture = loaded.steps_->find(threads.job, loaded.generation_);
  const auto wasIssued = [](const auto& lane) { return lane->issued() > 0; };
  if (std::ranges::any_of(loaded.lanes_, wasIssued)) {
    beginLanes(loaded, args);  // recording has gone through the tasks
  }
  return capture;
}

void Engine::run(LoadedProgram& loaded, const StepArgs& given) {
  EngineThreads& threads = *threads_;
  prepare(loaded);
  lastEvents_.clear();
  threads.args.emplace(given);
  const StepArgs& args = *threads.args;
  const std::span<const Turn::Mark> outer = Turn::Work::current();
  threads.marks.assign(outer.begin(), outer.end());
  threads.marks.push_back({args.turn});
  threads.links.begin();
  if (loaded.sums_ != nullptr) {
    loaded.sums_->begin();
  }
  threads.wrote.store(false);
  threads.job = {.program = &loaded.program_,
                 .lanes = loaded.lanes_,
                 .segments = loaded.segments_,
                 .checked = loaded.checked_,
                 .addresses = loaded.addresses_,
                 .states = {states_.data(), loaded.replicas_},
                 .links = &threads.links,
                 .sums = loaded.sums_.get(),
                 .args = &args,
                 .written = &loaded.written_,
                 .stopped = &threads.failed,
                 .wrote = &threads.wrote,
                 .workersServeHost = !args.feed.mayBlock() && !args.sink.mayBlock(),
                 .watchesFinite = loaded.watch_.finite,
                 .hasPacked = packedWrites_ == writes(loaded)};
  packedWrites_.reset();  // a step that fails may not have made them
  threads.failed.store(false);
  beginLanes(loaded, args);
  const std::int64_t begin = device::steadyNanoseconds();
  StepCapture* const capture = captureOf(loaded, args);
  threads.job.isCaptured = capture != nullptr;
  std::ranges::for_each(threads.searches, &EngineThreads::Search::begin);
  {
    const std::scoped_lock lock(threads.mutex);
    threads.failure = nullptr;
    threads.running = capture == nullptr ? threads.threads.size() : 0;
    threads.active = true;
    threads.queued.clear();
    for (const auto& lane : loaded.lanes_) {
      if (lane->isAsynchronous() && !lane->finished()) {
        threads.queued.push_back(lane.get());
      }
    }
  }
  if (capture == nullptr) {
    threads.step.fetch_add(1);
    threads.step.notify_all();
  }
  if (args.turn != nullptr && args.turn->isCancelled()) {
    threads.fail(
        std::make_exception_ptr(Cancelled("the call was cancelled before its step began")));
  }
  if (capture != nullptr) {
    threads.attempt([&] { capture->replay(threads.job); });
  }
  threads.awaitEnd();
  if (capture != nullptr) {
    threads.attempt([&] { capture->deliver(args.sink); });
  } else if (!threads.failed.load()) {
    loaded.steps_->note(device::steadyNanoseconds() - begin);
  }
  if (threads.failed.load() && args.keepsEvents) {
    keepEvents(loaded);
  }
  if (args.times != nullptr && !threads.failed.load()) {
    for (const auto& lane : loaded.lanes_) {
      lane->addTimes(*args.times);
    }
  }
  threads.finish();
  if (loaded.program_.keepsPacked) {
    packedWrites_ = writes(loaded);
  }
}

}  // namespace sluice::runtime
