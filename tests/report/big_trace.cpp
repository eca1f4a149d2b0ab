// Writes a trace of a made-up run with very many tasks, for the page to open.
//
//   big_trace FILE [TASKS]
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/profile/trace_file.h"

namespace {

using sluice::profile::Trace;
using sluice::program::LaneKind;

constexpr std::int32_t kDevices = 8;
constexpr std::int32_t kMicroBatches = 64;

/// Stage after stage, each on its own device, with a copy between two of them.
Trace madeUp(std::int64_t tasks) {
  Trace trace;
  trace.name = "big";
  trace.microBatchesPerRound = kMicroBatches;
  trace.devices.resize(kDevices);
  for (std::int32_t d = 0; d < kDevices; ++d) {
    trace.subjects.push_back(
        {.name = fmt::format("forward {}", d), .category = "forward", .stage = d, .touches = {}});
    trace.lanes.push_back({.device = d, .kind = LaneKind::Compute, .name = "compute", .tasks = {}});
    for (std::int32_t m = 0; m < kMicroBatches; ++m) {
      trace.lanes.back().tasks.push_back({.subject = d, .microBatch = m, .waits = {}, .slots = {}});
      if (d > 0) {
        trace.lanes.back().tasks.back().waits.push_back({.lane = d - 1, .task = m});
      }
    }
  }
  Trace::Step step;
  const std::int64_t rounds = tasks / (kDevices * kMicroBatches) + 1;
  for (std::int32_t round = 0; round < rounds; ++round) {
    for (std::int32_t d = 0; d < kDevices; ++d) {
      for (std::int32_t m = 0; m < kMicroBatches; ++m) {
        const std::int64_t start = (std::int64_t{round} * kMicroBatches + m + d) * 1000;
        step.push_back({d, m, round, start, start + 600 + (m * 7 + d * 13) % 300});
      }
    }
  }
  trace.addStep(step);
  return trace;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "big_trace FILE [TASKS]\n");
    return 2;
  }
  try {
    sluice::profile::writeTrace(argv[1], madeUp(argc > 2 ? std::atoll(argv[2]) : 2'000'000));
  } catch (const sluice::Error& error) {
    fmt::print(stderr, "big_trace: {}\n", error.what());
    return 1;
  }
  return 0;
}
