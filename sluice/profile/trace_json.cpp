// The trace in the Trace Event Format. Times there are microseconds; ours begin at the first task.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

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
Json metadata(std::string_view what, std::int32_t process, std::size_t thread, Json arguments) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", process},
          {"tid", thread},
          {"args", std::move(arguments)}};
}

/// A device and a lane of it at a time.
Json place(std::int32_t device, const TaskTime& time, std::int64_t origin) {
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

Json namesOf(std::size_t devices, std::span<const TracedLane> lanes) {
  Json events = Json::array();
  for (std::size_t device = 0; device < devices; ++device) {
    const auto process = static_cast<std::int32_t>(device);
    events.push_back(
        metadata("process_name", process, 0, {{"name", fmt::format("device {}", device)}}));
    events.push_back(metadata("process_sort_index", process, 0, {{"sort_index", process}}));
  }
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const std::int32_t process = lanes[lane].device;
    events.push_back(metadata("thread_name", process, lane, {{"name", lanes[lane].name}}));
    events.push_back(metadata("thread_sort_index", process, lane, {{"sort_index", lane}}));
  }
  return events;
}

}  // namespace

std::string Trace::json() const {
  Json events = namesOf(devices_, lanes_);
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const Step& step : steps_) {
    origin = step.empty() ? origin : std::min(origin, step.front().start);
  }
  std::int64_t arrows = 0;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, const TaskTime*> byTask;
    for (const TaskTime& time : steps_[s]) {
      byTask[{time.lane, time.task, time.round}] = &time;
    }
    for (const TaskTime& time : steps_[s]) {
      const TracedTask& task = taskOf(time);
      const Json at = place(laneOf(time).device, time, origin);
      Json slice = at;
      slice.update({{"ph", "X"},
                    {"name", task.name},
                    {"cat", task.category},
                    {"dur", microseconds(time.end - time.start)},
                    {"args", argumentsOf(time, task, s)}});
      events.push_back(std::move(slice));
      const auto from = byTask.find({task.producer.lane, task.producer.task, time.round});
      if (from != byTask.end()) {
        const TaskTime& source = *from->second;
        events.push_back(arrowEnd("s", arrows, place(laneOf(source).device, source, origin)));
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
