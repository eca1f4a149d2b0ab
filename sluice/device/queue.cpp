#include "sluice/device/queue.h"

#include "sluice/base/error.h"

namespace sluice::device {
namespace {

void requireInside(Address address, std::size_t bytes) {
  SLUICE_CHECK(address.memory != nullptr, "{} bytes at an address of no memory", bytes);
  SLUICE_CHECK(address.offset <= address.memory->bytes() &&
                   bytes <= address.memory->bytes() - address.offset,
               "{} bytes at {} of a memory of {} bytes",
               bytes,
               address.offset,
               address.memory->bytes());
}

}  // namespace

std::int64_t steadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool Event::isDone() const {
  SLUICE_CHECK(isRecorded(), "an event is asked for that no queue has recorded");
  return doIsDone();
}

bool Event::await(std::chrono::milliseconds atMost) const {
  SLUICE_CHECK(isRecorded(), "the host waits for an event that no queue has recorded");
  return doAwait(atMost);
}

void Queue::copy(Address to, Address from, std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  requireInside(to, bytes);
  requireInside(from, bytes);
  doCopy(to, from, bytes);
}

void Queue::fill(Address to, std::byte value, std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  requireInside(to, bytes);
  doFill(to, value, bytes);
}

void Queue::sum(Address to, std::span<const Address> from, DType type, std::int64_t elements) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * byteSize(type);
  if (bytes == 0) {
    return;
  }
  requireInside(to, bytes);
  for (const Address& term : from) {
    requireInside(term, bytes);
  }
  doSum(to, from, type, elements);
}

void Capture::doRedirect(Address, Address) {
  SLUICE_CHECK(false, "a launch is captured with the addresses of a plan, which stay");
}

void Queue::doReplay(Capture&) {
  SLUICE_CHECK(false, "a queue of a device that captures nothing is given a capture");
}

void Queue::record(Event& event) {
  doRecord(event);
  event.recorded_.store(true, std::memory_order_relaxed);
}

void Queue::wait(const Event& event) {
  SLUICE_CHECK(event.isRecorded(), "a queue waits for an event that no queue has recorded");
  doWait(event);
}

void copyIn(Queue& queue, Address to, const void* from, std::size_t bytes) {
  const HostMemory source(from, bytes);
  queue.copy(to, source.at(), bytes);
  queue.finish();
}

void copyOut(Queue& queue, void* to, Address from, std::size_t bytes) {
  const HostMemory target(to, bytes);
  queue.copy(target.at(), from, bytes);
  queue.finish();
}

}  // namespace sluice::device
