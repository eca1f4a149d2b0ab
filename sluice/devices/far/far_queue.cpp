#include "sluice/devices/far/far_queue.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
#include "sluice/devices/cpu/cpu_segment.h"
#include "sluice/devices/far/far_memory.h"

namespace sluice::devices::far {
namespace {

const FarMemory* farMemory(device::Address address) {
  return dynamic_cast<const FarMemory*>(address.memory);
}

/// Where this side of the wall finds a byte: of far memory, or of the host's.
std::byte* pointerTo(device::Address address) {
  if (const FarMemory* memory = farMemory(address)) {
    return memory->behindTheWall() + address.offset;
  }
  return device::hostPointer(address);
}

/// Finds the buffers that the kernels use.
void findBuffers(const cpu::CpuSegment& segment,
                 std::span<const device::Address> buffers,
                 std::vector<std::byte*>& pointers) {
  pointers.resize(std::max(pointers.size(), buffers.size()));
  for (const std::int32_t buffer : segment.buffers()) {
    const auto i = static_cast<std::size_t>(buffer);
    pointers[i] = pointerTo(buffers[i]);
  }
}

}  // namespace

FarSegment::FarSegment(std::span<const device::KernelCall> calls) : kernels_(calls) {
  const auto add = [&](std::int32_t buffer, std::size_t bytes, bool writes) {
    if (buffer >= 0) {
      BufferUse& use = uses_[buffer];
      use = {std::max(use.bytes, bytes), use.writes || writes};
    }
  };
  for (const device::KernelCall& call : calls) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      add(call.inputs[i], call.inputTypes[i].bytes(), false);
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      add(call.outputs[i], call.outputTypes[i].bytes(), true);
    }
    add(call.scratch, call.choice.scratchBytes, true);
  }
}

std::vector<OrderCheck::Use> FarSegment::usesOf(std::span<const device::Address> buffers) const {
  std::vector<OrderCheck::Use> uses;
  for (const auto& [buffer, use] : uses_) {
    uses.push_back({buffers[static_cast<std::size_t>(buffer)], use.bytes, use.writes});
  }
  return uses;
}

FarCapture::FarCapture(FarSegment& segment, std::span<const device::Address> buffers)
    : kernels_(segment.kernels()), uses_(segment.usesOf(buffers)) {
  findBuffers(kernels_, buffers, pointers_);
}

bool Progress::await(std::int64_t number, std::chrono::milliseconds atMost) const {
  if (isDone(number)) {
    return true;
  }
  std::unique_lock lock(mutex_);
  return moved_.wait_for(lock, atMost, [&] { return isDone(number); });
}

void Progress::await(std::int64_t number) const {
  if (!isDone(number)) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return isDone(number); });
  }
}

void Progress::advance(std::int64_t number) {
  {
    const std::scoped_lock lock(mutex_);
    done_.store(number, std::memory_order_release);
  }
  moved_.notify_all();
}

std::exception_ptr Progress::failure() const {
  if (!hasFailed()) {
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  return failure_;
}

bool Progress::hasFailedWithin(std::int64_t number) const {
  if (!hasFailed()) {
    return false;
  }
  const std::scoped_lock lock(mutex_);
  return failure_ != nullptr && failed_ < number;
}

void Progress::fail(std::exception_ptr error, std::int64_t number) {
  const std::scoped_lock lock(mutex_);
  if (failure_ == nullptr) {
    failure_ = std::move(error);
    failed_ = number;
    hasFailed_.store(true, std::memory_order_release);
  }
}

std::exception_ptr Progress::takeFailure() {
  const std::scoped_lock lock(mutex_);
  hasFailed_.store(false, std::memory_order_release);
  return std::exchange(failure_, nullptr);
}

FarEvent::Place FarEvent::place() const {
  const std::scoped_lock lock(mutex_);
  return place_;
}

void FarEvent::set(const Place& place) {
  const std::scoped_lock lock(mutex_);
  place_ = place;
}

bool FarEvent::doIsDone() const {
  return doAwait(std::chrono::milliseconds(0));
}

bool FarEvent::doAwait(std::chrono::milliseconds atMost) const {
  const Place at = place();
  const bool done = at.queue->await(at.number, atMost);
  if (done && at.check != nullptr) {
    at.check->see(*at.known);
  }
  return done;
}

FarQueue::FarQueue(Workers& workers,
                   std::mutex& compute,
                   const FarLinks& links,
                   std::shared_ptr<OrderCheck> check)
    : workers_(workers), compute_(compute), links_(links), check_(std::move(check)) {
  if (check_ != nullptr) {
    numberInCheck_ = check_->addQueue();
  }
}

void FarQueue::check(std::string_view command, std::span<const OrderCheck::Use> uses) {
  if (check_ != nullptr) {
    check_->use(numberInCheck_, command, uses);
    if (recording_ != nullptr) {
      recording_->note(uses);
    }
  }
}

void FarQueue::recordInto(FarRecording* recording, std::size_t part) {
  recording_ = recording;
  part_ = part;
  if (recording == nullptr && check_ != nullptr) {
    check_->finish(numberInCheck_);
  }
}

FarQueue::~FarQueue() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  given_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
  if (check_ != nullptr) {
    check_->endQueue(numberInCheck_);
  }
}

void FarQueue::enqueue(Kind kind, FunctionRef<void(Command&)> describe) {
  if (recording_ != nullptr) {
    Command& command = recording_->parts()[part_].commands.emplace_back();
    command.kind = kind;
    describe(command);
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    const auto size = static_cast<std::int64_t>(ring_.size());
    if (size == 0 || !progress_->isDone(accepted_ - size + 1)) {
      grow();
    }
    Command& command = at(accepted_);
    command.kind = kind;
    describe(command);
    ++accepted_;
    if (!thread_.joinable()) {
      thread_ = startThread("the thread of a far queue", [this] { work(); });
    }
  }
  given_.notify_one();
}

/// Every command of the ring is not done yet.
void FarQueue::grow() {
  std::vector<Command> smaller(std::max<std::size_t>(16, 2 * ring_.size()));
  std::swap(smaller, ring_);
  const auto size = static_cast<std::int64_t>(smaller.size());
  for (std::int64_t n = accepted_ - size; n < accepted_; ++n) {
    at(n) = std::move(smaller[static_cast<std::size_t>(n % size)]);
  }
}

void FarQueue::doLaunch(device::Executable& executable, std::span<const device::Address> buffers) {
  auto& segment = static_cast<FarSegment&>(executable);
  if (check_ != nullptr) {
    check("a launch", segment.usesOf(buffers));
  }
  enqueue(Kind::Launch, [&](Command& command) {
    command.segment = &segment;
    command.buffers.assign(buffers.begin(), buffers.end());
  });
}

void FarQueue::doSetRun(const ir::RunInfo& info) {
  enqueue(Kind::SetRun, [&](Command& command) { command.info = info; });
}

void FarQueue::doReplay(device::Capture& capture) {
  if (auto* const all = dynamic_cast<FarRecording*>(&capture)) {
    check("recorded work", all->uses());
    const std::vector<FarRecording::Part>& parts = all->parts();
    const auto leader = std::ranges::find(parts, this, &FarRecording::Part::queue) - parts.begin();
    const auto replay = std::make_shared<FarReplay>(*all, static_cast<std::size_t>(leader));
    for (std::size_t part = 0; part < parts.size(); ++part) {
      parts[part].queue->enqueue(Kind::ReplayPart, [&](Command& command) {
        command.replay = replay;
        command.part = part;
      });
    }
    return;
  }
  auto& captured = static_cast<FarCapture&>(capture);
  check("a launch", captured.uses());
  enqueue(Kind::Replay, [&](Command& command) { command.capture = &captured; });
}

void FarQueue::doCopy(device::Address to, device::Address from, std::size_t bytes) {
  check("a copy", std::array<OrderCheck::Use, 2>{{{from, bytes, false}, {to, bytes, true}}});
  enqueue(Kind::Copy, [&](Command& command) {
    command.to = to;
    command.from = from;
    command.bytes = bytes;
  });
}

void FarQueue::doFill(device::Address to, std::byte value, std::size_t bytes) {
  check("a fill", std::array<OrderCheck::Use, 1>{{{to, bytes, true}}});
  enqueue(Kind::Fill, [&](Command& command) {
    command.to = to;
    command.value = value;
    command.bytes = bytes;
  });
}

void FarQueue::doSum(device::Address to,
                     std::span<const device::Address> from,
                     DType type,
                     std::int64_t elements) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * byteSize(type);
  std::vector<OrderCheck::Use> uses = {{to, bytes, true}};
  for (const device::Address& term : from) {
    uses.push_back({term, bytes, false});
  }
  check("a sum", uses);
  enqueue(Kind::Sum, [&](Command& command) {
    command.to = to;
    command.buffers.assign(from.begin(), from.end());
    command.type = type;
    command.number = elements;
  });
}

void FarQueue::doRecord(device::Event& event) {
  const std::scoped_lock lock(mutex_);
  FarEvent::Place place{progress_,
                        accepted_,
                        check_ == nullptr ? nullptr : check_->record(numberInCheck_),
                        check_,
                        recording_ == nullptr ? 0 : recording_->serial(),
                        part_};
  if (recording_ != nullptr) {  // only what is recorded waits for it
    place.number = 0;
    place.numberInPart = std::ssize(recording_->parts()[part_].commands);
  }
  static_cast<FarEvent&>(event).set(place);
}

void FarQueue::doWait(const device::Event& event) {
  const FarEvent::Place place = static_cast<const FarEvent&>(event).place();
  if (check_ != nullptr && place.known != nullptr) {
    check_->wait(numberInCheck_, *place.known);
  }
  if (recording_ != nullptr && place.recording == recording_->serial()) {
    if (place.part != part_) {
      enqueue(Kind::Wait, [&](Command& command) {
        command.part = place.part;
        command.number = place.numberInPart;
      });
    }
    return;
  }
  if (!place.queue->isDone(place.number) || place.queue->hasFailedWithin(place.number)) {
    enqueue(Kind::Wait, [&](Command& command) { command.place = place; });
  }
}

void FarQueue::doStamp(device::Stamp& stamp, std::int64_t number, device::Clock clock) {
  enqueue(Kind::Stamp, [&](Command& command) {
    command.stamp = &stamp;
    command.number = number;
    command.clock = clock;
  });
}

void FarQueue::doFinish() {
  std::int64_t last = 0;
  {
    const std::scoped_lock lock(mutex_);
    last = accepted_;
  }
  progress_->await(last);
  if (check_ != nullptr) {
    check_->finish(numberInCheck_);
  }
  if (const std::exception_ptr failure = progress_->takeFailure()) {
    std::rethrow_exception(failure);
  }
}

bool FarQueue::doIsIdle() const {
  const std::scoped_lock lock(mutex_);
  const bool idle = progress_->isDone(accepted_);
  if (idle && check_ != nullptr) {
    check_->finish(numberInCheck_);
  }
  return idle;
}

void FarQueue::work() {
  for (std::int64_t next = 0;; ++next) {
    Command command;
    {
      std::unique_lock lock(mutex_);
      given_.wait(lock, [&] { return ending_ || accepted_ > next; });
      if (accepted_ == next) {
        return;
      }
      std::swap(command, at(next));
    }
    try {
      if (!progress_->hasFailed()) {
        execute(command);
      } else if (command.kind == Kind::ReplayPart) {
        passOver(command);
      }
    } catch (...) {
      progress_->fail(std::current_exception(), next);
    }
    {
      // Its room is used again by a later command.
      const std::scoped_lock lock(mutex_);
      std::swap(command, at(next));
    }
    progress_->advance(next + 1);
  }
}

void FarQueue::execute(Command& command) {
  if (isStopped() && command.kind != Kind::Nothing && command.kind != Kind::ReplayPart) {
    raise<Cancelled>("the step was given up");
  }
  switch (command.kind) {
    case Kind::SetRun:
      run_ = command.info;
      break;
    case Kind::Launch: {
      cpu::CpuSegment& kernels = command.segment->kernels();
      findBuffers(kernels, command.buffers, pointers_);
      launch(kernels, pointers_);
      break;
    }
    case Kind::Replay:
      launch(command.capture->kernels(), command.capture->pointers());
      break;
    case Kind::ReplayPart:
      replayPart(*command.replay, command.part);
      command.replay = nullptr;
      break;
    case Kind::Copy:
      move(command.to, command.from, command.bytes);
      break;
    case Kind::Fill:
      std::memset(pointerTo(command.to), static_cast<int>(command.value), command.bytes);
      break;
    case Kind::Sum:
      sum(command);
      break;
    case Kind::Wait:
      command.place.queue->await(command.place.number);
      if (command.place.queue->hasFailedWithin(command.place.number)) {
        raise<Cancelled>("the queue that was waited for has failed");
      }
      break;
    case Kind::Stamp:
      command.stamp->time.store(command.clock(), std::memory_order_relaxed);
      command.stamp->number.store(command.number, std::memory_order_release);
      break;
    case Kind::Nothing:
      break;
  }
}

/// After a failure of this queue.
void FarQueue::passOver(Command& part) {
  const std::shared_ptr<FarReplay> replay = std::move(part.replay);
  if (replay->isLeader(part.part)) {
    replay->giveUp();
  } else {
    replay->fail(progress_->failure());
    replay->leave();
  }
}

/// What a part throws is thrown by the leader.
void FarQueue::replayPart(FarReplay& replay, std::size_t part) {
  ir::RunInfo now = run_;
  if (replay.isLeader(part)) {
    replay.begin(now);
  } else if (!replay.awaitBegin(now)) {
    return;
  }
  const ir::RunInfo before = run_;
  try {
    run_ = now;
    replayCommands(replay, part, now);
  } catch (...) {
    replay.fail(std::current_exception());
  }
  run_ = before;
  replay.leave();
  if (replay.isLeader(part)) {
    replay.finish();
  }
}

void FarQueue::replayCommands(FarReplay& replay, std::size_t part, const ir::RunInfo& now) {
  FarRecording& recording = replay.recording();
  std::int64_t done = 0;
  if (isStopped()) {
    raise<Cancelled>("the step was given up");
  }
  for (Command& command : recording.parts()[part].commands) {
    if (replay.hasFailed()) {
      return;
    }
    if (command.kind == Kind::SetRun) {
      run_ = recording.moved(command.info, now);
    } else if (command.kind == Kind::Copy) {
      move(recording.placed(command.to), recording.placed(command.from), command.bytes);
    } else if (command.kind != Kind::Wait) {
      execute(command);
    } else if (!replay.await(command.part, command.number)) {
      return;
    }
    replay.advance(part, ++done);
  }
}

void FarQueue::move(device::Address to, device::Address from, std::size_t bytes) const {
  travel(to, from, bytes);
  std::memmove(pointerTo(to), pointerTo(from), bytes);
}

void FarQueue::launch(cpu::CpuSegment& segment, std::span<std::byte* const> pointers) {
  const std::scoped_lock lock(compute_);
  segment.run(pointers, run_, workers_, [this] { return isStopped(); });
}

void FarQueue::sum(Command& command) {
  terms_.clear();
  const std::size_t bytes = static_cast<std::size_t>(command.number) * byteSize(command.type);
  for (const device::Address& term : command.buffers) {
    travel(command.to, term, bytes);
    terms_.push_back(pointerTo(term));
  }
  cpu::sumElements(pointerTo(command.to), terms_, command.type, command.number);
}

/// Takes the time that the link takes.
void FarQueue::travel(device::Address to, device::Address from, std::size_t bytes) const {
  const FarMemory* const there = farMemory(to);
  const FarMemory* const here = farMemory(from);
  if (there != nullptr && here != nullptr && there->device() == here->device()) {
    return;
  }
  const device::Link& link = there != nullptr && here != nullptr ? links_.peer : links_.host;
  double seconds = link.latencySeconds;
  if (link.bytesPerSecond > 0) {
    seconds += static_cast<double>(bytes) / link.bytesPerSecond;
  }
  if (seconds > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
}

}  // namespace sluice::devices::far
