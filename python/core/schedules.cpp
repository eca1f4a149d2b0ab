// Schedules as plain data: Python draws them.
#include <array>

#include <fmt/format.h>

#include "python/core/bindings.h"
#include "sluice/api/compiled_program.h"
#include "sluice/api/model.h"
#include "sluice/base/error.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::python {
namespace {

py::dict toDict(const schedule::PipelineSchedule& schedule) {
  py::list devices;
  for (const std::vector<schedule::Work>& order : schedule.devices) {
    py::list works;
    for (const schedule::Work& work : order) {
      works.append(py::make_tuple(
          schedule::letter(work.kind), work.stage, work.microBatch, work.start, work.end));
    }
    devices.append(works);
  }
  py::dict result;
  result["kind"] = std::string(schedule::name(schedule.kind));
  result["devices"] = devices;
  result["makespan"] = schedule.makespan;
  result["bound"] = schedule.bound;
  result["stash_depth"] = schedule.stashDepth;
  return result;
}

schedule::PipelineKind kindOf(const std::string& name) {
  std::vector<std::string_view> names;
  for (const schedule::PipelineKind kind : schedule::allPipelineKinds()) {
    if (schedule::name(kind) == name) {
      return kind;
    }
    names.push_back(schedule::name(kind));
  }
  raise<InvalidArgument>("there is no schedule '{}'; there are {}", name, fmt::join(names, ", "));
}

py::dict make(const std::string& kind,
              const std::vector<std::int32_t>& deviceOfStage,
              std::int32_t microBatches,
              bool training,
              const std::vector<std::array<std::int64_t, 3>>& costs,
              std::int64_t transfer) {
  schedule::PipelineProblem problem{.deviceOfStage = deviceOfStage,
                                    .microBatches = microBatches,
                                    .training = training,
                                    .transferCost = transfer};
  for (const auto& [forward, input, weight] : costs) {
    problem.costs.push_back({forward, input, weight});
  }
  return toDict(schedule::schedulePipeline(kindOf(kind), problem));
}

}  // namespace

void bindSchedules(py::module_& m) {
  m.def("schedule",
        &make,
        py::arg("kind"),
        py::arg("device_of_stage"),
        py::arg("micro_batches"),
        py::arg("training") = true,
        py::arg("costs") = std::vector<std::array<std::int64_t, 3>>{},
        py::arg("transfer") = 0);
  m.def("schedule_kinds", [] {
    std::vector<std::string> names;
    for (const schedule::PipelineKind kind : schedule::allPipelineKinds()) {
      names.emplace_back(schedule::name(kind));
    }
    return names;
  });
  m.def(
      "schedule_of",
      [](const Model& model) {
        const CompiledProgram* compiled = nullptr;
        {
          const Unlocked release;
          compiled = &model.compiled();
        }
        return toDict(compiled->plan.schedule);
      },
      py::arg("model"));
}

}  // namespace sluice::python
