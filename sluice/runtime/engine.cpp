#include "sluice/runtime/engine.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "sluice/base/error.h"

namespace sluice::runtime {
namespace {

using program::Lane;
using program::Program;
using program::Task;
using program::TaskKind;

/// What a lane's counter is set to when the step fails: whoever waits for it goes on and looks.
constexpr std::int64_t kStopped = std::numeric_limits<std::int64_t>::max() / 2;

}  // namespace

struct Engine::Impl {
  /// A thread and what it needs for the lane it runs in the current step.
  struct LaneThread {
    device::Device* device = nullptr;
    std::unique_ptr<device::Queue> queue;
    std::vector<std::byte*> buffers;  // addresses by BufferId, ring slots set per task
    std::thread thread;
    alignas(64) std::atomic<std::int64_t> completed{0};  // written by one lane, polled by others
  };

  /// The step being run; written before `generation` is raised, read by the lanes after.
  struct Job {
    const LoadedProgram* loaded = nullptr;
    const Program* program = nullptr;
    std::span<const std::unique_ptr<device::Executable>> segments;
    const StepArgs* args = nullptr;
  };

  std::vector<std::unique_ptr<LaneThread>> lanes;
  Job job;
  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::int32_t> running{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};
  std::mutex mutex;  // guards failure
  std::exception_ptr failure;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    stop.store(true);
    generation.fetch_add(1);
    generation.notify_all();
    for (auto& lane : lanes) {
      if (lane->thread.joinable()) {
        lane->thread.join();
      }
    }
  }

  void addLane(device::Device* device) {
    auto lane = std::make_unique<LaneThread>();
    lane->device = device;
    lane->queue = device->makeQueue();
    const std::size_t index = lanes.size();
    lanes.push_back(std::move(lane));
    // The thread may begin while `lanes` still grows, so it gets its own entry from here.
    LaneThread& own = *lanes.back();
    own.thread = std::thread([this, index, &own] { threadLoop(index, own); });
  }

  void threadLoop(std::size_t index, LaneThread& lane) {
    lane.device->enterThread();
    std::uint64_t seen = 0;
    for (;;) {
      generation.wait(seen);
      seen = generation.load();
      if (stop.load()) {
        return;
      }
      try {
        if (index < job.program->lanes.size()) {
          runLane(lane, job.program->lanes[index]);
        }
      } catch (...) {
        fail(std::current_exception());
      }
      if (running.fetch_sub(1) == 1) {
        running.notify_all();
      }
    }
  }

  void fail(std::exception_ptr error) {
    {
      const std::scoped_lock lock(mutex);
      if (!failure) {
        failure = std::move(error);
      }
    }
    failed.store(true);
    for (auto& lane : lanes) {
      lane->completed.store(kStopped);
      lane->completed.notify_all();
    }
  }

  void runLane(LaneThread& lane, const Lane& plan) {
    const auto perRound = static_cast<std::int64_t>(plan.tasks.size());
    for (std::int32_t round = 0; round < job.args->rounds; ++round) {
      for (std::int64_t t = 0; t < perRound; ++t) {
        const Task& task = plan.tasks[static_cast<std::size_t>(t)];
        for (const program::Wait& wait : job.program->waitsOf(task)) {
          await(wait, round);
        }
        if (failed.load(std::memory_order_relaxed)) {
          return;
        }
        try {
          runTask(lane, task, round);
        } catch (Error& error) {
          error.at(fmt::format("{} of micro-batch {}, round {}, device {}",
                               program::name(task.kind),
                               task.microBatch,
                               round,
                               plan.device));
          throw;
        }
        complete(lane, round * perRound + t + 1);
      }
    }
  }

  void await(const program::Wait& wait, std::int32_t round) {
    const auto target = static_cast<std::size_t>(wait.lane);
    const std::int64_t since = round - wait.roundsBack;
    if (since < 0) {
      return;
    }
    const auto perRound = static_cast<std::int64_t>(job.program->lanes[target].tasks.size());
    const std::int64_t wanted = since * perRound + wait.task + 1;
    std::atomic<std::int64_t>& counter = lanes[target]->completed;
    for (std::int64_t now = counter.load(std::memory_order_acquire); now < wanted;
         now = counter.load(std::memory_order_acquire)) {
      counter.wait(now, std::memory_order_acquire);
    }
  }

  /// Exchange, not store: a failure elsewhere must not be overwritten.
  void complete(LaneThread& lane, std::int64_t count) {
    std::int64_t before = count - 1;
    lane.completed.compare_exchange_strong(before, count, std::memory_order_release);
    lane.completed.notify_all();
  }

  void runTask(LaneThread& lane, const Task& task, std::int32_t round) {
    const Program& program = *job.program;
    const std::int64_t inStep =
        static_cast<std::int64_t>(round) * program.microBatchesPerRound + task.microBatch;
    for (const program::Slot& slot : program.slotsOf(task)) {
      const program::Buffer& buffer = program.buffer(slot.buffer);
      lane.buffers[slot.buffer.index()] =
          job.loaded->addresses_[slot.buffer.index()] +
          buffer.slotStride() * static_cast<std::size_t>(program.slotIn(slot, round));
    }
    const auto subject = static_cast<std::size_t>(task.subject);
    switch (task.kind) {
      case TaskKind::Run:
        lane.queue->launch(*job.segments[subject],
                           lane.buffers,
                           {.seed = job.args->seed,
                            .microBatch = job.args->firstMicroBatch + inStep,
                            .microBatchInRound = task.microBatch});
        break;
      case TaskKind::Feed: {
        const program::Stream& stream = program.feeds[subject];
        lane.queue->copy(lane.buffers[stream.buffer.index()],
                         job.args->feed.take(task.subject, inStep),
                         stream.type.bytes());
        break;
      }
      case TaskKind::Drain: {
        const program::Stream& stream = program.drains[subject];
        const std::int64_t total =
            static_cast<std::int64_t>(job.args->rounds) * program.microBatchesPerRound;
        if (stream.rule.applies(inStep, total)) {
          job.args->sink.put(task.subject, inStep, lane.buffers[stream.buffer.index()]);
        }
        break;
      }
    }
    lane.queue->finish();
  }
};

Engine::Engine(ModelState& state) : state_(state), impl_(std::make_unique<Impl>()) {
  for (device::Device* device : state.devices()) {
    for (int lane = 0; lane < 3; ++lane) {
      impl_->addLane(device);
    }
  }
}

Engine::~Engine() = default;

std::unique_ptr<LoadedProgram> Engine::load(program::Program program) {
  auto loaded = std::make_unique<LoadedProgram>(std::move(program));
  loaded->serial_ = ++lastSerial_;
  SLUICE_CHECK(loaded->program_.lanes.size() <= impl_->lanes.size(),
               "a program of {} lanes on an engine of {}",
               loaded->program_.lanes.size(),
               impl_->lanes.size());
  for (const program::Segment& segment : loaded->program_.segments) {
    device::Device& device = *state_.devices()[static_cast<std::size_t>(segment.device)];
    loaded->segments_.push_back(device.prepare(segment.calls));
  }
  return loaded;
}

void Engine::refreshAddresses(LoadedProgram& loaded) {
  const Program& program = loaded.program_;
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    state_.reserveTransient(static_cast<std::int32_t>(d), program.devices[d].transientBytes);
  }
  if (!loaded.addresses_.empty() && loaded.generation_ == state_.generation()) {
    return;
  }
  loaded.addresses_.clear();
  for (const program::Buffer& buffer : program.buffers) {
    const std::span<std::byte> arena = buffer.region == program::Region::State
                                           ? state_.state(buffer.device)
                                           : state_.transient(buffer.device);
    SLUICE_CHECK(buffer.offset + buffer.totalBytes() <= arena.size(),
                 "buffer '{}' ends at {} of an arena of {} bytes",
                 buffer.name,
                 buffer.offset + buffer.totalBytes(),
                 arena.size());
    loaded.addresses_.push_back(arena.data() + buffer.offset);
  }
  loaded.generation_ = state_.generation();
}

void Engine::uploadConstants(const LoadedProgram& loaded) {
  if (currentSerial_ == loaded.serial_ && currentGeneration_ == state_.generation()) {
    return;
  }
  for (const program::Constant& constant : loaded.program_.constants) {
    const program::Buffer& buffer = loaded.program_.buffer(constant.buffer);
    Impl::LaneThread& lane = *impl_->lanes[static_cast<std::size_t>(buffer.device) * 3];
    lane.queue->copy(loaded.addresses_[constant.buffer.index()],
                     constant.value.bytes(),
                     constant.value.byteCount());
    lane.queue->finish();
  }
  currentSerial_ = loaded.serial_;
  currentGeneration_ = state_.generation();
}

void Engine::run(LoadedProgram& loaded, const StepArgs& args) {
  Impl& impl = *impl_;
  refreshAddresses(loaded);
  uploadConstants(loaded);
  impl.job = {&loaded, &loaded.program_, loaded.segments_, &args};
  impl.failed.store(false);
  impl.failure = nullptr;
  for (auto& lane : impl.lanes) {
    lane->completed.store(0);
    lane->buffers.assign(loaded.addresses_.begin(), loaded.addresses_.end());
  }
  impl.running.store(static_cast<std::int32_t>(impl.lanes.size()));
  impl.generation.fetch_add(1);
  impl.generation.notify_all();
  for (std::int32_t left = impl.running.load(); left > 0; left = impl.running.load()) {
    impl.running.wait(left);
  }
  if (impl.failure) {
    std::rethrow_exception(impl.failure);
  }
}

}  // namespace sluice::runtime
