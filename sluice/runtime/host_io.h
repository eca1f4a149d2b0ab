// Where a step's data comes from and goes to. The Engine calls these functions from its load and
// store lanes, one micro-batch at a time and in order, while the devices compute. Calls for
// different streams may come from different threads at the same time.
#pragma once

#include <cstdint>

#include "sluice/device/memory.h"

namespace sluice::runtime {

class HostFeed {
 public:
  virtual ~HostFeed() = default;
  /// Returns the data of one input for one micro-batch of the step, in plain layout and of the
  /// stream's type. It must stay valid until the next take of the same input and replica, or the
  /// end of the step. Exceptions reach the caller of the step.
  virtual const void* take(std::int32_t input, std::int64_t microBatch) = 0;
  /// Where a device has the data already, in memory of its own kind: it is copied from there, and
  /// take is not called. It must stay there and unchanged until the end of the step. No memory:
  /// take has the data.
  virtual device::Address placeOf(std::int32_t /*input*/, std::int64_t /*microBatch*/) {
    return {};
  }
  /// Whether take may block. If neither feed nor sink may block, the devices' workers make the
  /// calls themselves, and no other thread is woken for them.
  virtual bool mayBlock() const { return true; }
  /// Called once, from another thread, when the step ends early: a take() that waits, now or later
  /// in this step, should throw. A take() that continues to wait is left behind (see Engine::run).
  virtual void interrupt() {}
};

class HostSink {
 public:
  virtual ~HostSink() = default;
  /// Receives one output of one micro-batch; `data` is valid only during the call.
  virtual void put(std::int32_t output, std::int64_t microBatch, const void* data) = 0;
  /// Where a device leaves the output, in memory of its own kind, by the end of the step; put is
  /// not called then. No memory: put gets the data.
  virtual device::Address roomFor(std::int32_t /*output*/, std::int64_t /*microBatch*/) {
    return {};
  }
  /// As for HostFeed.
  virtual bool mayBlock() const { return true; }
  virtual void interrupt() {}
};

}  // namespace sluice::runtime
