#include "sluice/api/explain.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sluice/program/memory_plan.h"

namespace sluice {
namespace {

using parallel::ExecutionPlan;

constexpr std::size_t kShownParts = 8;

/// In milliseconds; short ones in microseconds.
std::string timeText(double nanoseconds) {
  constexpr double kShort = 1e4;
  return nanoseconds != 0 && nanoseconds < kShort ? fmt::format("{:.3f} us", nanoseconds / 1e3)
                                                  : fmt::format("{:.3f} ms", nanoseconds / 1e6);
}
std::string timeText(std::int64_t nanoseconds) {
  return timeText(static_cast<double>(nanoseconds));
}

std::string bytes(std::int64_t count) {
  return program::formatBytes(static_cast<std::size_t>(count));
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string stages(const ExecutionPlan& plan) {
  std::string text =
      "Stages, with estimated work per micro-batch on a nominal device\n"
      "  stage  device      forward     backward         stash  in flight  blocks\n";
  // A stage that runs beside others is marked with their common place in the pipeline.
  const auto besideOthers = [&](std::size_t s) {
    return std::ranges::count(plan.slotOfStage, plan.slotOfStage[s]) > 1
               ? fmt::format(", concurrent in slot {}", plan.slotOfStage[s])
               : std::string();
  };
  for (std::size_t s = 0; s < plan.work.size(); ++s) {
    const parallel::StageWork& work = plan.work[s];
    const bool named = s < plan.blocks.size() && !plan.blocks[s].empty();
    text += fmt::format("  {:>5}  {:>6}  {:>11}  {:>11}  {:>12}  {:>9}  {}{}\n",
                        s,
                        plan.segments.deviceOfStage[s],
                        timeText(work.forward),
                        timeText(work.backwardInput + work.backwardWeight),
                        bytes(work.stashBytes),
                        plan.schedule.stashDepth[s],
                        named ? fmt::format("{}", fmt::join(plan.blocks[s], ", ")) : "-",
                        besideOthers(s));
  }
  return text;
}

std::string scheduleOf(const ExecutionPlan& plan) {
  const schedule::PipelineSchedule& schedule = plan.schedule;
  const bool phaseMajor = plan.streaming.order == parallel::StreamOrder::PhaseMajor;
  std::string text =
      fmt::format("Schedule {}{}: {} per round, no order is below {}, gap {:.1f} %\n",
                  phaseMajor ? "phase by phase" : name(schedule.kind),
                  plan.recomputed ? " with recomputation" : "",
                  timeText(schedule.makespan),
                  timeText(schedule.bound),
                  percent(schedule.makespan - schedule.bound, schedule.bound));
  for (std::size_t d = 0; d < schedule.busy.size(); ++d) {
    text += fmt::format("  device {}: busy {}, idle {} ({:.1f} %)\n",
                        d,
                        timeText(schedule.busy[d]),
                        timeText(schedule.bubble[d]),
                        percent(schedule.bubble[d], schedule.makespan));
  }
  return text;
}

/// Forward and backward of one micro-batch on each device in use.
std::map<std::int32_t, std::int64_t> workOfDevices(std::span<const parallel::StageWork> work,
                                                   std::span<const std::int32_t> deviceOfStage) {
  std::map<std::int32_t, std::int64_t> sums;
  for (std::size_t s = 0; s < work.size(); ++s) {
    sums[deviceOfStage[s]] += work[s].forward + work[s].backwardInput + work[s].backwardWeight;
  }
  return sums;
}

std::string traffic(const program::Program& program) {
  std::string text;
  const std::vector<program::RemoteTraffic> devices = program::remoteTraffic(program);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    text += fmt::format("  device {} fetches {} and flushes {} in every round\n",
                        d,
                        program::formatBytes(devices[d].fetched),
                        program::formatBytes(devices[d].flushed));
  }
  return text;
}

std::string memory(const program::Program& program) {
  std::string text = "Memory of a replica\n";
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    const program::DevicePlan& plan = program.devices[d];
    text += fmt::format("  device {}: {} of state, {} of activations and scratch\n",
                        d,
                        program::formatBytes(plan.stateBytes),
                        program::formatBytes(plan.transientBytes));
  }
  if (program.remote.totalBytes() > 0) {
    text += fmt::format("  remote memory: {} of state, {} of activations\n",
                        program::formatBytes(program.remote.stateBytes),
                        program::formatBytes(program.remote.transientBytes));
    text += traffic(program);
  }
  return text;
}

}  // namespace

std::string explainBalance(std::span<const parallel::StageWork> work,
                           std::span<const std::int32_t> deviceOfStage) {
  const std::map<std::int32_t, std::int64_t> sums = workOfDevices(work, deviceOfStage);
  if (sums.size() < 2) {
    return {};
  }
  std::int64_t all = 0;
  for (const auto& [device, sum] : sums) {
    all += sum;
  }
  const auto longest = std::ranges::max_element(
      sums, {}, [](const std::pair<const std::int32_t, std::int64_t>& each) {
        return each.second;
      });
  const double even = static_cast<double>(all) / static_cast<double>(sums.size());
  return fmt::format(
      "Balance: device {} has the most work and sets the time of a micro-batch, {}; even "
      "shares are {}, so at most {:.0f} % of the devices' time is used\n",
      longest->first,
      timeText(longest->second),
      timeText(even),
      longest->second == 0 ? 100.0 : 100 * even / static_cast<double>(longest->second));
}

std::string explainParts(const program::StatePlan& state) {
  std::vector<const ir::Variable*> parts;
  for (const program::PlacedVariable& placed : state.variables()) {
    if (placed.variable.split) {
      parts.push_back(&placed.variable);
    }
  }
  if (parts.empty()) {
    return {};
  }
  std::ranges::stable_sort(
      parts, std::greater<>(), [](const ir::Variable* part) { return part->type.bytes(); });
  std::string text = "Variables of which a replica keeps a part\n";
  std::size_t kept = 0;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ir::Variable& part = *parts[i];
    kept += part.type.bytes();
    whole += part.wholeType().bytes();
    if (i < kShownParts) {
      text += fmt::format("  {}: {} of {}\n",
                          part.name,
                          program::formatBytes(part.type.bytes()),
                          program::formatBytes(part.wholeType().bytes()));
    }
  }
  return text + fmt::format("  all {}: {} of {}\n",
                            parts.size(),
                            program::formatBytes(kept),
                            program::formatBytes(whole));
}

std::string explain(const CompiledProgram& compiled,
                    const BatchLayout& layout,
                    const Options& options,
                    const program::StatePlan& state) {
  std::string text = layout.explain();
  const std::string_view how = !compiled.plan.phaseOfStage.empty() ? "Phased execution"
                               : compiled.plan.pipelined           ? "Pipelined execution"
                               : compiled.plan.sequential          ? "One micro-batch at a time"
                                                                   : "One device";
  text += fmt::format("{}; {} devices reserved for {} replicas\n",
                      how,
                      compiled.devices,
                      options.replicationFactor());
  text += stages(compiled.plan);
  if (compiled.plan.pipelined) {
    text += explainBalance(compiled.plan.work, compiled.plan.segments.deviceOfStage);
  }
  text += scheduleOf(compiled.plan);
  text += memory(compiled.program->program());
  text += explainParts(state);
  text += compiled.proven
              ? "The program is proven: no deadlock, no race, every read sees its value\n"
              : "The program is not proven; verifyPrograms(true) proves programs of any size\n";
  for (const std::string& warning : compiled.warnings) {
    text += fmt::format("Warning: {}\n", warning);
  }
  return text;
}

}  // namespace sluice
