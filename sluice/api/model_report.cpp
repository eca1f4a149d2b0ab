// What a model tells about itself and its calls.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/api/explain.h"
#include "sluice/api/model_core.h"
#include "sluice/api/virtual_time.h"
#include "sluice/base/error.h"
#include "sluice/program/memory_plan.h"

namespace sluice {
namespace {

constexpr std::size_t kShownSuggestions = 5;

}  // namespace

profile::Latencies ModelCore::latencies() const {
  const runtime::Turn::Hold turn = enter();
  const std::optional<profile::Latencies> measured =
      recorder_ ? recorder_->latencies() : std::nullopt;
  if (!measured) {
    raise<InvalidArgument>(
        "latencies are measured by calls of a model whose options have enableProfiling(folder): {}",
        recorder_ ? "it was not called yet" : "its options do not");
  }
  return *measured;
}

void ModelCore::requireSimulatedDevices() const {
  if (alive().simulatedOn().empty()) {
    raise<InvalidArgument>(
        "the devices of the model are not simulated: use Options::device(\"sim@ipu2\"), "
        "useIpuModel(true) or useOfflineTarget()");
  }
}

void ModelCore::requireSimulated() const {
  requireSimulatedDevices();
  if (!hasPrograms()) {
    raise<InvalidArgument>("the model is not compiled yet: call compile(inputs) first");
  }
}

SimulatedStep ModelCore::simulateStep() {
  const runtime::Turn::Hold turn = enter();
  requireSimulated();
  Session& session = alive();
  const Entry& entry = *programs_.back();
  const Session::ProgramPtr& program = entry.compiled.program;
  const std::int64_t cycles =
      session.simulate(program,
                       rounds(entry.layout),
                       static_cast<std::size_t>(entry.layout.replicationFactor),
                       recorder_ ? recorder_->begin() : nullptr);
  if (recorder_) {
    recorder_->end(program, session.simulatedOn());
  }
  return {.target = session.simulatedOn(),
          .cycles = cycles,
          .seconds = static_cast<double>(cycles) / static_cast<double>(session.virtualHertz())};
}

const ModelCore::Entry* ModelCore::entryOf(const profile::StepRecorder::ProgramPtr& program) const {
  const auto entry = std::ranges::find_if(
      programs_, [&](const auto& each) { return each->compiled.program == program; });
  return entry == programs_.end() ? nullptr : entry->get();
}

profile::Trace ModelCore::predicted(const profile::Trace& measured,
                                    const Entry& entry,
                                    VirtualTime& time) const {
  profile::Trace trace(entry.compiled.program->program());
  trace.simulated = time.target();
  for (std::int32_t step = 0; step < measured.numSteps(); ++step) {
    std::vector<runtime::TaskTime> times;
    time.step(entry.compiled.program,
              rounds(entry.layout),
              static_cast<std::int32_t>(entry.layout.replicationFactor),
              &times);
    trace.addStep(times);
  }
  return trace;
}

void ModelCore::report(const std::filesystem::path& file, const std::string& predictedOn) const {
  const runtime::Turn::Hold turn = enter();
  if (!recorder_ || recorder_->traces().empty()) {
    raise<InvalidArgument>(
        "a report shows the first calls of a model whose options have enableProfiling(folder): {}",
        recorder_ ? "it was not called yet" : "its options do not");
  }
  const std::string& simulatedOn = alive().simulatedOn();
  if (!predictedOn.empty() && !simulatedOn.empty()) {
    raise<InvalidArgument>("the times of this model are simulated on {} already", simulatedOn);
  }
  const std::unique_ptr<VirtualTime> time =
      predictedOn.empty() ? nullptr : VirtualTime::on(predictedOn);
  std::vector<profile::TracedRun> runs(recorder_->traces().begin(), recorder_->traces().end());
  for (std::size_t i = 0; i < runs.size() && (time || !simulatedOn.empty()); ++i) {
    const Entry* entry = entryOf(recorder_->program(i));
    if (entry == nullptr) {  // compiled again since, and not called
      continue;
    }
    if (time) {
      runs[i].predicted = predicted(runs[i].trace, *entry, *time);
    }
    for (const Suggestion& each : suggestions(*entry, kShownSuggestions, time.get())) {
      runs[i].suggestions.push_back({each.change, each.seconds, each.faster});
    }
  }
  profile::writeReport(file, runs);
}

std::vector<std::string> ModelCore::getTensorNames() const {
  const runtime::Turn::Hold turn = enter();
  return compiled().tensorNames;
}

HostTensor ModelCore::getAnchoredTensor(std::string_view shortName) const {
  const runtime::Turn::Hold turn = enter();
  const std::vector<Anchor>& anchors = options_.batch().anchors;
  const auto found = std::ranges::find(anchors, shortName, &Anchor::shortName);
  if (found == anchors.end()) {
    raise<InvalidArgument>("no tensor is anchored as '{}'; use Options::anchorTensor", shortName);
  }
  if (counts_->anchors.empty()) {
    raise<InvalidArgument>("anchor '{}' has no value yet: call the model first", shortName);
  }
  return counts_->anchors[static_cast<std::size_t>(found - anchors.begin())];
}

std::int64_t ModelCore::cycleCount() const {
  const runtime::Turn::Hold turn = enter();
  if (counts_->cycles == 0) {
    raise<InvalidArgument>(
        "cycles are counted by calls of a model whose options have logCycleCount(true): {}",
        options_.report().logCycleCount ? "it was not called yet" : "its options do not");
  }
  return counts_->cycles;
}

std::string ModelCore::explain() const {
  const runtime::Turn::Hold turn = enter();
  return sluice::explain(compiled(), batchLayout(), options_, alive().state().plan());
}

std::string ModelCore::summary() const {
  const runtime::Turn::Hold turn = enter();
  std::string text = source_->summary();
  for (const auto& entry : programs_) {
    std::vector<std::string> types;
    for (const TensorType& type : entry->signature.leaves()) {
      types.push_back(type.str());
    }
    const program::Program& p = entry->compiled.program->program();
    std::size_t kernels = 0;
    for (const program::Segment& segment : p.segments) {
      kernels += segment.calls.size();
    }
    text += fmt::format("{} program for ({}): {} kernels", p.name, fmt::join(types, ", "), kernels);
    for (std::size_t d = 0; d < p.devices.size(); ++d) {
      text += p.devices.size() == 1 ? std::string(", ") : fmt::format("\n  device {}: ", d);
      text += fmt::format("{} of state, {} of activations and scratch",
                          program::formatBytes(p.devices[d].stateBytes),
                          program::formatBytes(p.devices[d].transientBytes));
    }
    text += "\n";
  }
  return text;
}

}  // namespace sluice
