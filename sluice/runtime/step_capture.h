// StepCapture: all tasks of a step as one capture, for devices that can record the work of several
// queues. Recorded are the tasks in an order that keeps their waits; inputs and outputs of the host
// lie in pinned memory of its own. A replay copies the inputs there, or tells the capture where a
// device has them, gives one queue the capture, and passes the outputs on once the devices are
// done. Nothing else of the step changes: stamps are part of the capture, so that watches and
// errors see the tasks end. Private to the runtime module.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/device/device.h"
#include "sluice/runtime/step_job.h"

namespace sluice::runtime {

class StepCapture {
 public:
  /// Records the step, whose lanes have begun. Null if the devices cannot.
  static std::unique_ptr<StepCapture> record(const StepJob& job);

  /// Makes the capture that of this step. False: the step is of another form.
  bool adapt(const StepJob& job);
  /// Takes all inputs and gives the capture to the first queue. All tasks are issued then.
  void replay(const StepJob& job);
  /// Passes on all outputs, in order; the devices are done.
  void deliver(HostSink& sink) const;

 private:
  /// An input or output of a micro-batch, and its place in the pinned memory.
  struct Moved {
    std::int32_t port = 0;
    std::int64_t microBatch = 0;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  /// One that a device has, and the address that it was recorded with.
  struct Placed {
    std::int32_t port = 0;
    std::int64_t microBatch = 0;
    device::Address recorded;
  };
  /// By where the bytes are. Those without bytes are of the host.
  struct Ports {
    std::vector<Moved> onHost;
    std::vector<Placed> onDevice;
  };
  class Places;

  StepCapture() = default;
  std::byte* hostAt(std::size_t offset) const;
  /// Tells the capture where inputs and outputs of this step are. False: some are on the other
  /// side.
  bool redirect(const StepArgs& args);

  std::int32_t rounds_ = 0;
  bool hasPacked_ = false;
  bool writesState_ = false;
  std::unique_ptr<device::Memory> pinned_;
  Ports inputs_;
  Ports outputs_;
  device::Queue* queue_ = nullptr;            // replays
  std::unique_ptr<device::Capture> capture_;  // ends before the memory
};

/// Decides which steps of a Program are captured: those that come again, are short, and need the
/// host for their inputs and outputs alone.
class StepCaptures {
 public:
  /// The capture for this step, made if it is due; null: the lanes' tasks are to be run one by one.
  StepCapture* find(const StepJob& job, std::uint64_t generation);
  /// A step without a capture has ended after so many nanoseconds.
  void note(std::int64_t nanoseconds) { last_ = nanoseconds; }
  std::size_t count() const { return capture_ == nullptr ? 0 : 1; }

 private:
  void refuse(const Error& why);

  std::unique_ptr<StepCapture> capture_;
  std::uint64_t generation_ = 0;  // of the captured addresses
  std::int64_t last_ = -1;        // negative: there was no step yet
  bool refused_ = false;          // it has failed: it is not tried again
};

}  // namespace sluice::runtime
