// The queue of a far device: a list of commands and a thread that runs them. Commands are numbered;
// an event is the number of the last command before it. After a failure the remaining commands are
// skipped, and a queue that waits for a failed queue fails, too. Private to the device.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/base/workers.h"
#include "sluice/device/device.h"
#include "sluice/devices/cpu/cpu_segment.h"
#include "sluice/devices/far/order_check.h"

namespace sluice::devices::far {

/// How far a queue has advanced. It outlives the queue, because events keep it.
class Progress {
 public:
  bool isDone(std::int64_t number) const { return done_.load(std::memory_order_acquire) >= number; }
  /// Waits until `number` commands are done, for at most the given time; returns whether they are.
  bool await(std::int64_t number, std::chrono::milliseconds atMost) const;
  void await(std::int64_t number) const;
  void advance(std::int64_t number);

  bool hasFailed() const { return hasFailed_.load(std::memory_order_acquire); }
  /// Whether one of the first `number` commands has failed.
  bool hasFailedWithin(std::int64_t number) const;
  std::exception_ptr failure() const;
  /// Notes the failure of command `number`, counted from 0. Only the first failure is kept.
  void fail(std::exception_ptr error, std::int64_t number);
  /// Returns the failure, if any, and forgets it.
  std::exception_ptr takeFailure();

 private:
  std::atomic<std::int64_t> done_{0};
  std::atomic<bool> hasFailed_{false};
  mutable std::mutex mutex_;  // guards failure_ and failed_
  mutable std::condition_variable moved_;
  std::exception_ptr failure_;
  std::int64_t failed_ = 0;
};

class FarEvent final : public device::Event {
 public:
  struct Place {
    std::shared_ptr<const Progress> queue;
    std::int64_t number = 0;
    std::shared_ptr<const OrderCheck::Known> known = nullptr;  // null: nothing is checked
    std::shared_ptr<OrderCheck> check = nullptr;
    std::int64_t recording = 0;  // its serial number; 0: the queue was not recording
    std::size_t part = 0;        // of the recording
    std::int64_t numberInPart = 0;
  };
  Place place() const;
  void set(const Place& place);

 private:
  bool doIsDone() const override;
  bool doAwait(std::chrono::milliseconds atMost) const override;

  mutable std::mutex mutex_;  // guards place_
  Place place_;
};

/// The kernels of a segment, and their uses of buffers.
class FarSegment final : public device::Executable {
 public:
  explicit FarSegment(std::span<const device::KernelCall> calls);
  cpu::CpuSegment& kernels() { return kernels_; }
  /// The uses by all kernels together; each buffer appears once.
  std::vector<OrderCheck::Use> usesOf(std::span<const device::Address> buffers) const;

 private:
  struct BufferUse {
    std::size_t bytes = 0;
    bool writes = false;
  };

  cpu::CpuSegment kernels_;
  std::map<std::int32_t, BufferUse> uses_;
};

/// The kernels of a segment, with the addresses of their buffers for the device's threads.
class FarCapture final : public device::Capture {
 public:
  FarCapture(FarSegment& segment, std::span<const device::Address> buffers);
  cpu::CpuSegment& kernels() { return kernels_; }
  std::span<std::byte* const> pointers() const { return pointers_; }
  std::span<const OrderCheck::Use> uses() const { return uses_; }

 private:
  cpu::CpuSegment& kernels_;
  std::vector<std::byte*> pointers_;  // by buffer; those that the kernels use
  std::vector<OrderCheck::Use> uses_;
};

struct FarLinks {
  int device = 0;
  device::Link host;
  device::Link peer;
};

class FarReplay;

struct FarCommand {
  enum class Kind : std::uint8_t {
    SetRun,
    Launch,
    Replay,
    ReplayPart,
    Copy,
    Fill,
    Sum,
    Wait,
    Stamp,
    Nothing
  };
  Kind kind = Kind::Nothing;
  FarSegment* segment = nullptr;
  FarCapture* capture = nullptr;
  std::shared_ptr<FarReplay> replay;
  std::size_t part = 0;                  // of a replay; waited for, if it is a wait while recording
  std::vector<device::Address> buffers;  // of a launch, or the terms of a sum
  ir::RunInfo info;
  device::Address to;
  device::Address from;
  std::size_t bytes = 0;
  std::byte value{0};
  DType type = DType::F32;
  std::int64_t number = 0;  // of elements, of a stamp, or of commands of the part
  FarEvent::Place place;
  device::Stamp* stamp = nullptr;
  device::Clock clock = nullptr;
};

class FarQueue;

/// The commands that several queues were given: a part for each, with its waits for others.
class FarRecording final : public device::Capture {
 public:
  FarRecording(const ir::RunInfo& from, std::size_t parts) : from_(from), parts_(parts) {}

  struct Part {
    FarQueue* queue = nullptr;
    std::vector<FarCommand> commands;
  };
  std::vector<Part>& parts() { return parts_; }
  /// No other recording has it.
  std::int64_t serial() const { return serial_; }
  /// Notes uses for the check of whoever replays.
  void note(std::span<const OrderCheck::Use> uses) {
    uses_.insert(uses_.end(), uses.begin(), uses.end());
  }
  /// Of the next replay.
  std::vector<OrderCheck::Use> uses() const;
  /// Where a replay copies from or to what was recorded.
  device::Address placed(device::Address recorded) const;
  /// What a recorded command was told, moved to a replay's own numbers.
  ir::RunInfo moved(const ir::RunInfo& told, const ir::RunInfo& now) const;

 private:
  void doRedirect(device::Address recorded, device::Address now) override {
    places_[{recorded.memory, recorded.offset}] = now;
  }

  static std::int64_t nextSerial();

  std::int64_t serial_ = nextSerial();
  ir::RunInfo from_;
  std::vector<Part> parts_;
  std::vector<OrderCheck::Use> uses_;
  std::map<std::pair<const device::Memory*, std::size_t>, device::Address> places_;  // redirected
};

/// One replay of a recording, for the queues that run its parts. The leader is the queue that was
/// given the replay: no part begins before it has come that far, and it goes on after all parts.
class FarReplay {
 public:
  FarReplay(FarRecording& recording, std::size_t leader)
      : recording_(recording), leader_(leader), done_(recording.parts().size()) {}

  FarRecording& recording() const { return recording_; }
  bool isLeader(std::size_t part) const { return part == leader_; }
  /// By the leader, with the numbers of its run.
  void begin(const ir::RunInfo& now);
  /// By the leader, which has failed: nothing will be run.
  void giveUp();
  /// By the other parts: waits for the leader; false: it has given up.
  bool awaitBegin(ir::RunInfo& now);

  /// Commands of a part that are done.
  void advance(std::size_t part, std::int64_t number);
  /// Waits for as many; false: some part has failed.
  bool await(std::size_t part, std::int64_t number);
  /// Ends all parts; the first failure counts.
  void fail(std::exception_ptr error);
  bool hasFailed() const { return failed_.load(); }
  /// By the leader: waits for all parts and throws the failure, if there is one.
  void finish();
  /// The part touches the recording no more.
  void leave();

 private:
  enum class State : std::uint8_t { Given, Begun, GivenUp };

  FarRecording& recording_;
  std::size_t leader_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards all below
  std::condition_variable moved_;
  State state_ = State::Given;
  ir::RunInfo now_;
  std::vector<std::int64_t> done_;  // commands by part
  std::size_t left_ = 0;            // parts that have ended
  std::exception_ptr failure_;
};

class FarQueue final : public device::Queue {
 public:
  /// The queues of a device share `workers`; `compute` lets the kernels of one queue at a time use
  /// them. `check` may be null.
  FarQueue(Workers& workers,
           std::mutex& compute,
           const FarLinks& links,
           std::shared_ptr<OrderCheck> check);
  ~FarQueue() override;
  FarQueue(const FarQueue&) = delete;
  FarQueue& operator=(const FarQueue&) = delete;

  /// From now on commands go to a part of the recording. Null: to the thread again, after those of
  /// the recording for the order check.
  void recordInto(FarRecording* recording, std::size_t part = 0);

 private:
  using Command = FarCommand;
  using Kind = FarCommand::Kind;

  void doSetRun(const ir::RunInfo& info) override;
  void doLaunch(device::Executable& executable, std::span<const device::Address> buffers) override;
  void doReplay(device::Capture& capture) override;
  void doCopy(device::Address to, device::Address from, std::size_t bytes) override;
  void doFill(device::Address to, std::byte value, std::size_t bytes) override;
  void doSum(device::Address to,
             std::span<const device::Address> from,
             DType type,
             std::int64_t elements) override;
  void doRecord(device::Event& event) override;
  void doWait(const device::Event& event) override;
  void doStamp(device::Stamp& stamp, std::int64_t number, device::Clock clock) override;
  void doFinish() override;
  bool doIsIdle() const override;
  std::exception_ptr doFailure() const override { return progress_->failure(); }

  void check(std::string_view command, std::span<const OrderCheck::Use> uses);
  /// Calls `describe` to fill in the next command and passes the command to the thread.
  void enqueue(Kind kind, FunctionRef<void(Command&)> describe);
  void grow();
  Command& at(std::int64_t number) {
    return ring_[static_cast<std::size_t>(number) % ring_.size()];
  }
  void work();
  void passOver(Command& part);
  void execute(Command& command);
  void replayPart(FarReplay& replay, std::size_t part);
  void replayCommands(FarReplay& replay, std::size_t part, const ir::RunInfo& now);
  void launch(cpu::CpuSegment& segment, std::span<std::byte* const> pointers);
  void move(device::Address to, device::Address from, std::size_t bytes) const;
  void sum(Command& command);
  void travel(device::Address to, device::Address from, std::size_t bytes) const;

  Workers& workers_;
  std::mutex& compute_;
  FarLinks links_;
  std::shared_ptr<OrderCheck> check_;
  std::size_t numberInCheck_ = 0;
  FarRecording* recording_ = nullptr;  // null: commands are run
  std::size_t part_ = 0;               // of the recording
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  ir::RunInfo run_;  // as of the command that the thread runs
  std::vector<std::byte*> pointers_;
  std::vector<const void*> terms_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable given_;
  std::vector<Command> ring_;  // command n is at n % size; grows when it is full
  std::int64_t accepted_ = 0;
  bool ending_ = false;
  std::thread thread_;  // started by the first command
};

}  // namespace sluice::devices::far
