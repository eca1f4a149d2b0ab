// Traces in the Trace Event Format, and as CSV. Times there begin at the first task of all traces.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sluice/profile/common_clock.h"
#include "sluice/profile/trace.h"

namespace sluice::profile {
namespace {

using Json = nlohmann::json;
using runtime::TaskTime;

double microseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e3;
}

/// Names or orders a process or a thread.
Json metadata(std::string_view what, std::size_t process, std::size_t thread, Json arguments) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", process},
          {"tid", thread},
          {"args", std::move(arguments)}};
}

std::vector<std::int64_t> commonShifts(std::span<const Trace> traces) {
  std::vector<const Trace*> all;
  all.reserve(traces.size());
  for (const Trace& trace : traces) {
    all.push_back(&trace);
  }
  return shiftsOf(all);
}

/// The kernels that a transfer waits for and that ran on the device it comes from; of several the
/// last one in that device's order. Its lane is -1 if there are none.
program::Wait producerOf(const Trace& trace, const TaskTime& time) {
  program::Wait producer{.lane = -1};
  if (trace.subjectOf(time).kind != program::TaskKind::Transfer) {
    return producer;
  }
  for (const program::Wait& wait : trace.taskOf(time).waits) {
    const TracedLane& lane = trace.lanes[static_cast<std::size_t>(wait.lane)];
    if (wait.roundsBack == 0 && lane.kind == program::LaneKind::Compute &&
        lane.device == trace.laneOf(time).peer &&
        (producer.lane < 0 || wait.task > producer.task)) {
      producer = wait;
    }
  }
  return producer;
}

class Events {
 public:
  Events(const Trace& trace, std::size_t firstProcess, std::int64_t shift, Json& events)
      : t_(trace), first_(firstProcess), shift_(shift), events_(events) {}

  /// `prefix` tells the devices of several traces apart.
  void addNames(std::string_view prefix) {
    for (std::size_t d = 0; d < t_.numDevices(); ++d) {
      const std::string name = t_.labelled(fmt::format("{}device {}", prefix, t_.deviceName(d)));
      events_.push_back(metadata("process_name", first_ + d, 0, {{"name", name}}));
      events_.push_back(
          metadata("process_sort_index", first_ + d, 0, {{"sort_index", first_ + d}}));
    }
    for (std::size_t r = 0; r < static_cast<std::size_t>(t_.replicas); ++r) {
      for (std::size_t lane = 0; lane < t_.lanes.size(); ++lane) {
        const std::size_t process =
            first_ + r * t_.devices.size() + static_cast<std::size_t>(t_.lanes[lane].device);
        events_.push_back(metadata("thread_name", process, lane, {{"name", t_.lanes[lane].name}}));
        events_.push_back(metadata("thread_sort_index", process, lane, {{"sort_index", lane}}));
      }
    }
  }

  void addStep(std::size_t number, std::int64_t& arrows) {
    std::map<std::array<std::int32_t, 4>, const TaskTime*> byTask;
    for (const TaskTime& time : t_.steps[number]) {
      byTask[{time.replica, time.lane, time.task, time.round}] = &time;
    }
    for (const TaskTime& time : t_.steps[number]) {
      const Json at = place(time);
      Json slice = at;
      slice.update({{"ph", "X"},
                    {"name", t_.nameOf(time)},
                    {"cat", t_.subjectOf(time).category},
                    {"dur", microseconds(time.end - time.start)},
                    {"args", argumentsOf(time, number)}});
      events_.push_back(std::move(slice));
      const program::Wait producer = producerOf(t_, time);
      const auto from = byTask.find({time.replica, producer.lane, producer.task, time.round});
      if (from != byTask.end()) {
        events_.push_back(arrowEnd("s", arrows, place(*from->second)));
        events_.push_back(arrowEnd("f", arrows++, at));
      }
    }
    if (number < t_.kernels.size()) {
      for (const runtime::KernelSpan& time : t_.kernels[number]) {
        addKernel(time);
      }
    }
  }

 private:
  /// Inside the slice of its task.
  void addKernel(const runtime::KernelSpan& time) {
    const auto& kernels = t_.subjectOf(t_.taskOf(time)).kernels;
    Json slice = place({.lane = time.lane,
                        .task = time.task,
                        .round = time.round,
                        .start = time.start,
                        .end = time.end,
                        .replica = time.replica});
    slice.update({{"ph", "X"},
                  {"name", kernels[static_cast<std::size_t>(time.kernel)].name},
                  {"cat", "kernel"},
                  {"dur", microseconds(time.end - time.start)}});
    events_.push_back(std::move(slice));
  }

  Json place(const TaskTime& time) const {
    return {{"pid", first_ + t_.deviceOf(time)},
            {"tid", time.lane},
            {"ts", microseconds(time.start + shift_)}};
  }

  Json argumentsOf(const TaskTime& time, std::size_t step) const {
    const TracedSubject& subject = t_.subjectOf(time);
    Json arguments = {{"step", step}, {"round", time.round}};
    if (subject.stage >= 0) {
      arguments["stage"] = subject.stage;
    }
    if (!subject.oncePerRound) {
      arguments["microBatch"] = t_.taskOf(time).microBatch;
    }
    if (subject.bytes > 0) {
      arguments["bytes"] = subject.bytes;
    }
    return arguments;
  }

  /// One end of an arrow; both ends have the same id.
  static Json arrowEnd(std::string_view phase, std::int64_t id, Json at) {
    at.update({{"ph", phase}, {"name", "transfer"}, {"cat", "transfer"}, {"id", id}});
    if (phase == "f") {
      at["bp"] = "e";  // at the slice round this time, not at the next one
    }
    return at;
  }

  const Trace& t_;
  std::size_t first_;
  std::int64_t shift_;  // added to all times
  Json& events_;
};

/// In quotes if it has to be.
std::string csvText(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  }
  return quoted + '"';
}

}  // namespace

std::string perfettoJson(std::span<const Trace> traces) {
  Json events = Json::array();
  Json names = Json::array();
  std::size_t process = 0;
  std::int64_t arrows = 0;
  const std::vector<std::int64_t> shifts = commonShifts(traces);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    Events of(traces[i], process, shifts[i], events);
    of.addNames(traces.size() == 1 ? "" : fmt::format("{} {}: ", i + 1, traces[i].name));
    for (std::size_t s = 0; s < traces[i].steps.size(); ++s) {
      of.addStep(s, arrows);
    }
    process += traces[i].numDevices();
    names.push_back(traces[i].labelled(traces[i].name));
  }
  const Json document = {{"traceEvents", std::move(events)},
                         {"displayTimeUnit", "ms"},
                         {"otherData", {{"program", names.size() == 1 ? names[0] : names}}}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string traceCsv(std::span<const Trace> traces) {
  std::string text =
      "program,step,round,device,lane,task,category,stage,micro_batch,bytes,start_ns,end_ns\n";
  const std::vector<std::int64_t> shifts = commonShifts(traces);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const Trace& trace = traces[i];
    for (std::size_t s = 0; s < trace.steps.size(); ++s) {
      for (const TaskTime& time : trace.steps[s]) {
        const TracedSubject& subject = trace.subjectOf(time);
        fmt::format_to(std::back_inserter(text),
                       "{},{},{},{},{},{},{},{},{},{},{},{}\n",
                       csvText(trace.labelled(trace.name)),
                       s,
                       time.round,
                       trace.deviceName(trace.deviceOf(time)),
                       csvText(trace.laneOf(time).name),
                       csvText(trace.nameOf(time)),
                       subject.category,
                       subject.stage,
                       subject.oncePerRound ? -1 : trace.taskOf(time).microBatch,
                       subject.bytes,
                       time.start + shifts[i],
                       time.end + shifts[i]);
      }
    }
  }
  return text;
}

}  // namespace sluice::profile
