// Latencies of a step: how long a micro-batch takes from the host to the devices, through them and
// back, as the smallest, largest and mean value over the micro-batches that came back.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"

namespace sluice::profile {

/// In seconds.
struct Latency {
  double min = 0;
  double max = 0;
  double avg = 0;
};

struct Latencies {
  Latency hostDevice;  ///< from the first input's request to the last input on its device
  Latency compute;     ///< from there until the last output is ready
  Latency deviceHost;  ///< from the first output's being ready to the last one on the host
  Latency roundTrip;   ///< from the first input's request to the last output on the host
};

/// From the start of the first task of a step to the end of the last one, in cycles of the devices'
/// clock: nanoseconds for a CPU. 0 without tasks.
std::int64_t cyclesOf(std::span<const runtime::TaskTime> times);

/// Of the micro-batches of all replicas whose outputs are fetched. `times` are all of one step.
Latencies measureLatencies(const program::Program& program,
                           std::span<const runtime::TaskTime> times);

}  // namespace sluice::profile
