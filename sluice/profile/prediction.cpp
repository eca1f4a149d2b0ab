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

/// What is the same wherever a program runs.
struct Measures {
  std::string_view what;  ///< "bytes"
  std::string_view of;    ///< "task"
  std::map<std::string, std::int64_t> amounts;
};

/// The most in a step: the last one may have fewer rounds.
Measures runsOf(const Trace& trace) {
  Measures runs{"runs in a step", "task", {}};
  for (const Trace::Step& step : trace.steps) {
    std::map<std::string, std::int64_t> counts;
    for (const runtime::TaskTime& time : step) {
      ++counts[trace.subjectOf(time).name];
    }
    for (const auto& [name, count] : counts) {
      std::int64_t& most = runs.amounts[name];
      most = std::max(most, count);
    }
  }
  return runs;
}

/// Copies between devices have the layouts of the devices' kernels, which kinds choose for
/// themselves.
Measures copiedOf(const Trace& trace) {
  Measures copied{"bytes", "task", {}};
  for (const TracedSubject& subject : trace.subjects) {
    const bool isCopy = subject.kind == program::TaskKind::Transfer ||
                        subject.kind == program::TaskKind::Send ||
                        subject.kind == program::TaskKind::Receive;
    copied.amounts[subject.name] += isCopy ? 0 : subject.bytes;
  }
  return copied;
}

Measures stateOf(const Trace& trace) {
  Measures state{"bytes", "variable", {}};
  for (const TracedBuffer& buffer : trace.buffers) {
    if (buffer.state) {
      state.amounts[buffer.name] += buffer.bytes;
    }
  }
  return state;
}

/// "its task 'feed x' has 64 bytes instead of 32"; empty: none differs.
std::string differenceOf(Measures here, Measures there) {
  for (const auto& [name, found] : there.amounts) {
    here.amounts.try_emplace(name, 0);
  }
  for (const auto& [name, amount] : here.amounts) {
    const std::int64_t found = there.amounts[name];
    if (found != amount) {
      return fmt::format(
          "its {} '{}' has {} {} instead of {}", here.of, name, found, here.what, amount);
    }
  }
  return "";
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
  if (measured.microBatchesPerRound != predicted.microBatchesPerRound) {
    fail(fmt::format("a round of it has {} micro-batches instead of {}",
                     predicted.microBatchesPerRound,
                     measured.microBatchesPerRound));
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
  for (const auto measures : {runsOf, copiedOf, stateOf}) {
    const std::string difference = differenceOf(measures(measured), measures(predicted));
    if (!difference.empty()) {
      fail(difference);
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
