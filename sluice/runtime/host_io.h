// Where a step's data comes from and goes to. The Engine calls these from its load and store lanes,
// one micro-batch at a time and in order, while the devices compute; calls for different streams
// may come from different threads at once.
#pragma once

#include <cstdint>

namespace sluice::runtime {

class HostFeed {
 public:
  virtual ~HostFeed() = default;
  /// The data of one input for one micro-batch of the step: plain, of the stream's type. Valid
  /// until the next one of the same input and replica is taken or the step ends. Errors are thrown
  /// and reach the caller of the step.
  virtual const void* take(std::int32_t input, std::int64_t microBatch) = 0;
  /// Whether take may wait for something. If neither side may, the devices' workers make the calls
  /// themselves and no other thread is woken for them.
  virtual bool mayBlock() const { return true; }
  /// The step ends early: take() that waits, now or later in this step, should throw. Called from
  /// another thread, once. A take() that goes on waiting is left behind, see Engine::run.
  virtual void interrupt() {}
};

class HostSink {
 public:
  virtual ~HostSink() = default;
  /// Receives one output of one micro-batch; `data` is valid only during the call.
  virtual void put(std::int32_t output, std::int64_t microBatch, const void* data) = 0;
  /// As for a feed.
  virtual bool mayBlock() const { return true; }
  virtual void interrupt() {}
};

}  // namespace sluice::runtime
