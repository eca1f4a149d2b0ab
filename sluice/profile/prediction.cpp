#include "sluice/profile/prediction.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::profile {
namespace {

/// Nanoseconds per step by name; several copies may have the same name.
using Times = std::map<std::string, std::int64_t>;

Times taskTimes(const Trace& trace) {
  Times times;
  for (const TracedLane& lane : trace.lanes) {  // also those that never ran
    for (const TracedTask& task : lane.tasks) {
      times.try_emplace(trace.subjectOf(task).name, 0);
    }
  }
  for (const Trace::Step& step : trace.steps) {
    for (const runtime::TaskTime& time : step) {
      times[trace.subjectOf(time).name] += time.end - time.start;
    }
  }
  for (auto& [name, time] : times) {
    time /= trace.numSteps();
  }
  return times;
}

std::int64_t stepTime(const Trace& trace) {
  std::int64_t sum = 0;
  for (const Trace::Step& step : trace.steps) {
    sum += step.empty() ? 0 : Trace::endOf(step) - Trace::beginOf(step);
  }
  return sum / trace.numSteps();
}

void requireSameProgram(const Trace& measured,
                        const Times& here,
                        const Trace& predicted,
                        const Times& there) {
  const auto fail = [&](std::string_view what) {
    raise<InvalidArgument>(
        "the predicted trace is of another program than '{}': {}; simulate the same model with the "
        "same options",
        measured.name,
        what);
  };
  if (measured.numDevices() != predicted.numDevices()) {
    fail(fmt::format(
        "it has {} devices instead of {}", predicted.numDevices(), measured.numDevices()));
  }
  for (const auto& [name, time] : here) {
    if (!there.contains(name)) {
      fail(fmt::format("it has no task '{}'", name));
    }
  }
  for (const auto& [name, time] : there) {
    if (!here.contains(name)) {
      fail(fmt::format("it has a task '{}'", name));
    }
  }
}

}  // namespace

Prediction predictionOf(const Trace& measured, const Trace& predicted) {
  if (predicted.simulated.empty()) {
    raise<InvalidArgument>(
        "the predicted trace '{}' was measured: simulate the model, for "
        "instance on sim@measured",
        predicted.name);
  }
  for (const Trace* trace : {&measured, &predicted}) {
    if (std::ranges::all_of(trace->steps, [](const auto& step) { return step.empty(); })) {
      raise<InvalidArgument>("the trace '{}' has no steps: nothing was run while it was recorded",
                             trace->name);
    }
  }
  const Times here = taskTimes(measured);
  const Times there = taskTimes(predicted);
  requireSameProgram(measured, here, predicted, there);
  Prediction result{.target = predicted.simulated,
                    .step = {"step", stepTime(measured), stepTime(predicted)}};
  const std::vector<DeviceUse> work = measured.usage();
  const std::vector<DeviceUse> predictedWork = predicted.usage();
  for (std::size_t d = 0; d < work.size(); ++d) {
    result.devices.push_back({fmt::format("work of device {}", measured.deviceName(d)),
                              work[d].busy / measured.numSteps(),
                              predictedWork[d].busy / predicted.numSteps()});
  }
  for (const auto& [name, time] : here) {
    result.tasks.push_back({name, time, there.at(name)});
  }
  std::ranges::stable_sort(result.tasks, std::greater<>(), [](const PredictedPart& part) {
    return std::max(part.measured, part.predicted);
  });
  return result;
}

}  // namespace sluice::profile
