// Latencies of a step: how long a micro-batch takes from the host to the devices, through them and
// back. They are the smallest, largest and mean values over the micro-batches whose outputs are
// returned.
#pragma once

#include <cstdint>
#include <span>

#pragma GCC visibility push(default)

namespace sluice::runtime {
struct TaskTime;
}

namespace sluice::profile {

struct Trace;

/// Times in seconds.
struct Latency {
  double min = 0;
  double max = 0;
  double avg = 0;
};

struct Latencies {
  Latency hostDevice;  ///< from the first input's request to the last input on its device
  Latency compute;     ///< from there until the last output is ready
  Latency deviceHost;  ///< from when the first output is ready to the last output on the host
  Latency roundTrip;   ///< from the first input's request to the last output on the host
};

/// The time from the start of a step's first task to the end of its last one, in cycles of the
/// devices' clock; nanoseconds for a CPU. 0 if there are no tasks.
std::int64_t cyclesOf(std::span<const runtime::TaskTime> times);

/// Measures the micro-batches of all replicas whose outputs are fetched. `times` must have all
/// times of one step of the trace's program.
Latencies measureLatencies(const Trace& trace, std::span<const runtime::TaskTime> times);

}  // namespace sluice::profile

#pragma GCC visibility pop
