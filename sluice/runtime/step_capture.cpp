#include "sluice/runtime/step_capture.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/base/log.h"

namespace sluice::runtime {
namespace {

/// A capture cannot be given up once it runs, so it must be over soon.
constexpr std::int64_t kLongest = 100'000'000;
/// Kernels and tasks of a capture.
constexpr std::size_t kMostNodes = 20'000;
/// Of inputs and outputs, which lie twice in the host's memory.
constexpr std::size_t kMostHostBytes = std::size_t{64} << 20U;

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool isOnOneKind(const StepJob& job) {
  return std::ranges::all_of(job.lanes, [&](const auto& lane) {
    return lane->isAsynchronous() && lane->laneClass() != LaneClass::Remote &&
           lane->laneClass() != LaneClass::Send &&
           lane->device().info().kind == job.lanes.front()->device().info().kind;
  });
}

/// Whether the host is needed for inputs and outputs alone, which it gives and takes at once.
bool runsWithoutHost(const StepJob& job) {
  return job.workersServeHost && job.checked.empty() && !job.isApart() && !job.watchesFinite &&
         job.args->times == nullptr && !job.args->keepsEvents && job.args->writes == nullptr &&
         std::ranges::all_of(job.segments,
                             [](const auto& segment) { return !segment->needsHost(); });
}

std::size_t nodesOf(const StepJob& job) {
  std::size_t nodes = 0;
  for (const auto& lane : job.lanes) {
    for (const program::Task& task : lane->plan().tasks) {
      const bool runs = task.kind == program::TaskKind::Run;
      const auto subject = static_cast<std::size_t>(task.subject);
      nodes += 2 + (runs ? job.program->segments[subject].calls.size() : 0);
    }
  }
  return nodes * static_cast<std::size_t>(job.args->rounds);
}

std::size_t hostBytes(const StepJob& job) {
  std::size_t bytes = 0;
  for (const auto* ports : {&job.program->feeds, &job.program->drains}) {
    for (const program::Port& port : *ports) {
      bytes += aligned(port.type.bytes());
    }
  }
  return bytes * job.replicas() * static_cast<std::size_t>(job.program->microBatchesPerRound) *
         static_cast<std::size_t>(job.args->rounds);
}

bool canBeCaptured(const StepJob& job) {
  return !job.lanes.empty() && isOnOneKind(job) && runsWithoutHost(job) &&
         nodesOf(job) <= kMostNodes && hostBytes(job) <= kMostHostBytes;
}

/// Issues all tasks in one order that keeps their waits: of the lanes that may go on, the one whose
/// task is planned first.
void issueAll(const StepJob& job) {
  TaskRoom room;
  for (;;) {
    LaneRun* next = nullptr;
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const auto& lane : job.lanes) {
      if (!lane->finished() && lane->priority(lane->issued()) < first &&
          lane->isUnblocked(lane->issued(), job.lanes)) {
        next = lane.get();
        first = lane->priority(lane->issued());
      }
    }
    if (next == nullptr) {
      return;
    }
    const std::int64_t count = next->issued();
    next->beginTask(count, job.lanes);
    runTask(job, *next, count, room);
    next->endTask(count);
    next->issue(count + 1);
  }
}

/// Those that have tasks; the first one replays.
std::vector<device::Queue*> queuesOf(const StepJob& job) {
  std::vector<device::Queue*> queues;
  for (const auto& lane : job.lanes) {
    if (lane->total() > 0) {
      queues.push_back(&lane->queue());
    }
  }
  return queues;
}

ir::RunInfo numbersOf(const StepJob& job) {
  return {.seed = job.args->seed, .microBatch = job.args->firstMicroBatch};
}

}  // namespace

/// Gives every input and output that is recorded a place of its own: where a device has it, or in
/// the pinned memory.
class StepCapture::Places final : public HostFeed, public HostSink {
 public:
  Places(const StepJob& job, StepCapture& capture) : job_(job), capture_(capture) {}

  const void* take(std::int32_t, std::int64_t) override { return nullptr; }  // it has no bytes
  device::Address placeOf(std::int32_t input, std::int64_t microBatch) override {
    return add(job_.program->feeds[static_cast<std::size_t>(input)].type.bytes(),
               {input, microBatch, job_.args->feed.placeOf(input, microBatch)},
               capture_.inputs_);
  }
  void put(std::int32_t, std::int64_t, const void*) override {}  // it has no bytes
  device::Address roomFor(std::int32_t output, std::int64_t microBatch) override {
    return add(job_.program->drains[static_cast<std::size_t>(output)].type.bytes(),
               {output, microBatch, job_.args->sink.roomFor(output, microBatch)},
               capture_.outputs_);
  }
  bool mayBlock() const override { return false; }
  void interrupt() override {}

  /// Whether the capture can tell apart all that devices have.
  bool areDistinct() const { return areDistinct_; }

 private:
  device::Address add(std::size_t bytes, const Placed& placed, Ports& ports) {
    if (placed.recorded.memory != nullptr) {
      ports.onDevice.push_back(placed);
      areDistinct_ =
          known_.insert({placed.recorded.memory, placed.recorded.offset}).second && areDistinct_;
      return placed.recorded;
    }
    ports.onHost.push_back({placed.port, placed.microBatch, end_, bytes});
    if (bytes == 0) {
      return {};
    }
    const device::Address place = capture_.pinned_->at(end_);
    end_ += aligned(bytes);
    return place;
  }

  const StepJob& job_;
  StepCapture& capture_;
  std::set<std::pair<const device::Memory*, std::size_t>> known_;
  bool areDistinct_ = true;
  std::size_t end_ = 0;
};

std::unique_ptr<StepCapture> StepCapture::record(const StepJob& job) {
  std::unique_ptr<StepCapture> made(new StepCapture);
  device::Device& device = job.lanes.front()->device();
  made->rounds_ = job.args->rounds;
  made->hasPacked_ = job.hasPacked;
  made->pinned_ = device.allocatePinned(std::max(hostBytes(job), kAlignment));
  Places places(job, *made);
  StepArgs args{.feed = places,
                .sink = places,
                .rounds = job.args->rounds,
                .seed = job.args->seed,
                .firstMicroBatch = job.args->firstMicroBatch,
                .peers = job.args->peers};
  std::atomic<bool> wrote{false};
  StepJob recorded = job;
  recorded.args = &args;
  recorded.wrote = &wrote;
  recorded.records = true;
  const std::vector<device::Queue*> queues = queuesOf(job);
  if (!queues.empty()) {
    made->queue_ = queues.front();
    made->capture_ = device.record(queues, numbersOf(job), [&] { issueAll(recorded); });
  }
  if (made->capture_ == nullptr || !places.areDistinct()) {
    return nullptr;
  }
  SLUICE_CHECK(std::ranges::all_of(job.lanes, [](const auto& lane) { return lane->finished(); }),
               "a recorded step has tasks that wait for ever");
  made->writesState_ = wrote.load();
  return made;
}

bool StepCapture::redirect(const StepArgs& args) {
  const auto isPlaced = [](device::Address place) { return place.memory != nullptr; };
  const auto at = [&](const Ports& ports, const auto& each) {
    return &ports == &inputs_ ? args.feed.placeOf(each.port, each.microBatch)
                              : args.sink.roomFor(each.port, each.microBatch);
  };
  for (const Ports* ports : {&inputs_, &outputs_}) {
    for (const Moved& each : ports->onHost) {
      if (isPlaced(at(*ports, each))) {
        return false;
      }
    }
    for (const Placed& each : ports->onDevice) {
      const device::Address now = at(*ports, each);
      if (!isPlaced(now)) {
        return false;
      }
      capture_->redirect(each.recorded, now);
    }
  }
  return true;
}

bool StepCapture::adapt(const StepJob& job) {
  return rounds_ == job.args->rounds && hasPacked_ == job.hasPacked && redirect(*job.args);
}

std::byte* StepCapture::hostAt(std::size_t offset) const {
  return device::hostPointer(pinned_->at(offset));
}

void StepCapture::replay(const StepJob& job) {
  for (const Moved& input : inputs_.onHost) {
    const void* const data = job.args->feed.take(input.port, input.microBatch);
    if (input.bytes > 0) {
      std::memcpy(hostAt(input.offset), data, input.bytes);
    }
  }
  if (job.stopped->load()) {
    raise<Cancelled>("the step was given up meanwhile");
  }
  if (writesState_) {
    job.wrote->store(true, std::memory_order_relaxed);
  }
  for (const auto& lane : job.lanes) {
    lane->issue(lane->total());
  }
  queue_->setRun(numbersOf(job));
  queue_->replay(*capture_);
  for (const auto& lane : job.lanes) {
    lane->endStep(*queue_);
  }
}

void StepCapture::deliver(HostSink& sink) const {
  for (const Moved& output : outputs_.onHost) {
    sink.put(output.port, output.microBatch, output.bytes > 0 ? hostAt(output.offset) : nullptr);
  }
}

StepCapture* StepCaptures::find(const StepJob& job, std::uint64_t generation) {
  if (generation != generation_) {
    capture_ = nullptr;
    generation_ = generation;
    last_ = -1;
  }
  const bool isShort = last_ >= 0 && last_ <= kLongest;
  if (refused_ || !isShort || !canBeCaptured(job)) {
    return nullptr;
  }
  try {
    if (capture_ == nullptr) {
      capture_ = StepCapture::record(job);
      refused_ = capture_ == nullptr;
    }
    return capture_ != nullptr && capture_->adapt(job) ? capture_.get() : nullptr;
  } catch (const DeviceError& error) {
    refuse(error);
  } catch (const OutOfMemory& error) {  // a step needs less memory without
    refuse(error);
  }
  return nullptr;
}

void StepCaptures::refuse(const Error& why) {
  log::warn("engine", "steps are not captured as a whole: {}", why.what());
  capture_ = nullptr;
  refused_ = true;
}

}  // namespace sluice::runtime
