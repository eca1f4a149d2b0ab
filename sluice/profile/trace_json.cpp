// The trace in the Trace Event Format. Times there are microseconds; ours begin at the first task.
#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

/// A device and a lane of it at a time.
Json place(std::size_t device, const TaskTime& time, std::int64_t origin) {
  return {{"pid", device}, {"tid", time.lane}, {"ts", microseconds(time.start - origin)}};
}

Json argumentsOf(const TaskTime& time, const TracedTask& task, std::size_t step) {
  Json arguments = {{"step", step}, {"round", time.round}};
  if (task.stage >= 0) {
    arguments["stage"] = task.stage;
  }
  if (task.microBatch >= 0) {
    arguments["microBatch"] = task.microBatch;
  }
  if (task.bytes > 0) {
    arguments["bytes"] = task.bytes;
  }
  return arguments;
}

/// One end of an arrow; both ends have the same id.
Json arrowEnd(std::string_view phase, std::int64_t id, Json at) {
  at.update({{"ph", phase}, {"name", "transfer"}, {"cat", "transfer"}, {"id", id}});
  if (phase == "f") {
    at["bp"] = "e";  // at the slice round this time, not at the next one
  }
  return at;
}

/// The devices of a replica, the first of which is process `first`, and their lanes.
void addNames(Json& events,
              std::size_t first,
              std::span<const std::string> devices,
              std::span<const TracedLane> lanes) {
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::size_t process = first + d;
    events.push_back(metadata("process_name", process, 0, {{"name", "device " + devices[d]}}));
    events.push_back(metadata("process_sort_index", process, 0, {{"sort_index", process}}));
  }
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const std::size_t process = first + static_cast<std::size_t>(lanes[lane].device);
    events.push_back(metadata("thread_name", process, lane, {{"name", lanes[lane].name}}));
    events.push_back(metadata("thread_sort_index", process, lane, {{"sort_index", lane}}));
  }
}

}  // namespace

std::string Trace::json() const {
  Json events = Json::array();
  for (std::size_t r = 0; r < replicas_; ++r) {
    std::vector<std::string> names;
    for (std::size_t d = 0; d < devices_; ++d) {
      names.push_back(deviceName(r * devices_ + d));
    }
    addNames(events, r * devices_, names, lanes_);
  }
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const Step& step : steps_) {
    origin = step.empty() ? origin : std::min(origin, step.front().start);
  }
  std::int64_t arrows = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    using Key = std::array<std::int32_t, 4>;
    std::map<Key, const TaskTime*> byTask;
    for (const TaskTime& time : steps_[s]) {
      byTask[{time.replica, time.lane, time.task, time.round}] = &time;
    }
    for (const TaskTime& time : steps_[s]) {
      const TracedTask& task = taskOf(time);
      const Json at = place(deviceOf(time), time, origin);
      Json slice = at;
      slice.update({{"ph", "X"},
                    {"name", task.name},
                    {"cat", task.category},
                    {"dur", microseconds(time.end - time.start)},
                    {"args", argumentsOf(time, task, s)}});
      events.push_back(std::move(slice));
      const auto from =
          byTask.find({time.replica, task.producer.lane, task.producer.task, time.round});
      if (from != byTask.end()) {
        const TaskTime& source = *from->second;
        events.push_back(arrowEnd("s", arrows, place(deviceOf(source), source, origin)));
        events.push_back(arrowEnd("f", arrows++, at));
      }
    }
  }
  const Json document = {{"traceEvents", std::move(events)},
                         {"displayTimeUnit", "ms"},
                         {"otherData", {{"program", program_}}}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sluice::profile
