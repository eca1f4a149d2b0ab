#include "sluice/profile/run_facts.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::profile {
namespace {

using program::LaneKind;
using runtime::TaskTime;

std::vector<RemoteUse> remoteOf(const Trace& trace, const Explanation& why) {
  std::vector<RemoteUse> uses(trace.numDevices());
  bool any = false;
  for (const Trace::Step& step : trace.steps) {
    for (const TaskTime& time : step) {
      const LaneKind kind = trace.laneOf(time).kind;
      if (kind != LaneKind::Fetch && kind != LaneKind::Flush) {
        continue;
      }
      any = true;
      RemoteUse& use = uses[trace.deviceOf(time)];
      (kind == LaneKind::Fetch ? use.fetched : use.flushed) += trace.subjectOf(time).bytes;
      use.copying += time.end - time.start;
    }
  }
  if (!any) {
    return {};
  }
  for (std::size_t d = 0; d < uses.size(); ++d) {
    uses[d].waited = why.devices[d].causes[static_cast<std::size_t>(Cause::RemoteMemory)];
  }
  return uses;
}

/// Instead of the remedy for ramps, where no schedule helps.
constexpr std::string_view kOneMicroBatch =
    "There is one micro-batch at a time, so the stages take turns and one device works while the "
    "others wait: use a pipeline with several micro-batches (gradientAccumulation in training, "
    "deviceIterations in inference).";

/// The stage that takes longest, and how much longer than the mean it takes.
std::string longestStage(const RunFacts& facts) {
  const std::vector<StageTime>& stages = facts.why.stages;
  if (stages.size() < 2) {
    return "";
  }
  std::int64_t sum = 0;
  for (const StageTime& stage : stages) {
    sum += stage.time();
  }
  const std::int64_t mean = sum / static_cast<std::int64_t>(stages.size());
  const StageTime& longest = *std::ranges::max_element(stages, {}, &StageTime::time);
  return fmt::format(" Stage {} on device {} takes {} per micro-batch, {} more than the mean.",
                     longest.stage,
                     longest.device,
                     milliseconds(longest.time()),
                     milliseconds(longest.time() - mean));
}

}  // namespace

std::int64_t RunFacts::idle() const {
  std::int64_t sum = 0;
  for (const DeviceIdle& device : why.devices) {
    sum += device.idle();
  }
  return sum;
}

std::int64_t RunFacts::idle(Cause cause) const {
  std::int64_t sum = 0;
  for (const DeviceIdle& device : why.devices) {
    sum += device.causes[static_cast<std::size_t>(cause)];
  }
  return sum;
}

double RunFacts::busyShare() const {
  std::int64_t span = 0;
  for (const DeviceIdle& device : why.devices) {
    span += device.span;
  }
  return span == 0 ? 0 : 1 - static_cast<double>(idle()) / static_cast<double>(span);
}

std::vector<Cause> RunFacts::causes() const {
  std::vector<Cause> found;
  for (std::size_t c = 0; c < kCauses; ++c) {
    if (idle(static_cast<Cause>(c)) > 0) {
      found.push_back(static_cast<Cause>(c));
    }
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, [&](Cause c) { return idle(c); });
  return found;
}

std::vector<RunFacts> factsOf(std::span<const TracedRun> runs) {
  std::vector<RunFacts> all;
  for (const TracedRun& run : runs) {
    const Trace& trace = run.trace;
    const bool ran = std::ranges::any_of(trace.steps, [](const auto& s) { return !s.empty(); });
    if (!ran) {
      raise<InvalidArgument>("the trace '{}' has no steps: nothing was run while it was recorded",
                             run.title);
    }
    RunFacts& facts = all.emplace_back(RunFacts{.run = &run, .trace = &trace});
    facts.why = explain(trace);
    facts.peaks.resize(trace.numDevices());
    for (const Trace::Step& step : trace.steps) {
      if (step.empty()) {
        continue;
      }
      facts.memory.push_back(memoryUse(trace, step));
      for (std::size_t d = 0; d < facts.peaks.size(); ++d) {
        const MemoryUse& use = facts.memory.back()[d];
        if (facts.peaks[d].points.empty() || use.peak > facts.peaks[d].peak) {
          facts.peaks[d] = use;
        }
      }
      facts.latencies = measureLatencies(trace, step);
    }
    facts.remote = remoteOf(trace, facts.why);
    facts.kernels = kernelUses(trace);
    if (run.predicted) {
      facts.prediction = predictionOf(trace, *run.predicted);
    }
  }
  return all;
}

std::string advice(const RunFacts& facts) {
  const std::vector<Cause> causes = facts.causes();
  if (causes.empty()) {
    return "";
  }
  const Cause main = causes.front();
  const std::string_view more =
      facts.why.stages.size() > 1 && facts.trace->microBatchesPerRound == 1 ? kOneMicroBatch : "";
  return fmt::format("Most idle time, {} of it, is due to {}.{} {}",
                     percent(facts.idle(main), facts.idle()),
                     name(main),
                     main == Cause::Imbalance ? longestStage(facts) : "",
                     main == Cause::Ramp && !more.empty() ? more : remedyOf(main));
}

std::string milliseconds(std::int64_t nanoseconds) {
  constexpr std::int64_t kShort = 10'000;  // fewer have less than two digits in milliseconds
  if (nanoseconds != 0 && std::abs(nanoseconds) < kShort) {
    return fmt::format("{:.3f} us", static_cast<double>(nanoseconds) * 1e-3);
  }
  return fmt::format("{:.3f} ms", static_cast<double>(nanoseconds) * 1e-6);
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.1f} %",
                     whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace sluice::profile
