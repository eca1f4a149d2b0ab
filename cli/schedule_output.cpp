#include "cli/schedule_output.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/schedule_chart.h"
#include "cli/terminal.h"
#include "sluice/program/bare_program.h"
#include "sluice/runtime/simulator.h"
#include "sluice/schedule/lock_step.h"

namespace sluice::cli {
namespace {

using schedule::Cell;
using schedule::CycleTable;
using schedule::PipelineKind;
using schedule::PipelineSchedule;
using schedule::Work;
using schedule::WorkKind;

struct Totals {
  std::string makespan;
  std::string bound;
  std::string gap;
};

std::string jsonOf(std::string_view devices, const Totals& totals, std::string_view rest) {
  return fmt::format("{{\"devices\":[{}],\"makespan\":{},\"bound\":{},\"gap\":{},{}}}\n",
                     devices,
                     totals.makespan,
                     totals.bound,
                     totals.gap,
                     rest);
}

std::string jsonPiece(char kind,
                      std::int32_t stage,
                      std::int32_t microBatch,
                      std::string_view start,
                      std::string_view end) {
  return fmt::format("{{\"kind\":\"{}\",\"stage\":{},\"microBatch\":{},\"start\":{},\"end\":{}}}",
                     kind,
                     stage,
                     microBatch,
                     start,
                     end);
}

/// Digits of fractions, for programs and for people.
constexpr int kExact = 15;
constexpr int kReadable = 6;

/// Separated by commas in full, or by spaces and rounded.
template <class Values>
std::string inUnits(const Values& values, std::int64_t unit, int digits) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const std::int64_t value : values) {
    texts.push_back(inUnit(value, unit, digits));
  }
  return fmt::format("{}", fmt::join(texts, digits == kExact ? "," : " "));
}

Totals totalsOf(const ScheduleRequest& request, const PipelineSchedule& result, int digits) {
  return {inUnit(result.makespan, request.timeUnit, digits),
          inUnit(result.bound, request.timeUnit, digits),
          inUnit(result.makespan - result.bound, request.timeUnit, digits)};
}

/// What the guides' tables count besides the cells.
struct CycleFacts {
  CycleTable table;
  std::int64_t bound = 0;
  std::vector<std::int32_t> queues;
};

CycleFacts cycleFacts(const ScheduleRequest& request) {
  const bool popart = request.kind == PipelineKind::Popart;
  CycleFacts facts;
  facts.table = cycleTable(request.kind, request.problem);
  facts.queues = popart ? stashEntries(request.problem) : fifoDepths(request.kind, request.problem);
  schedule::PipelineProblem single = request.problem;
  single.microBatches = 1;
  // A stage works on one micro-batch per cycle, so the last one enters in cycle G-1 at the
  // earliest.
  facts.bound = cycleTable(request.kind, single).cycles + request.problem.microBatches - 1;
  return facts;
}

Style styleOf(char letter) {
  return letter == 'F' ? Style::Blue : letter == 'B' ? Style::Yellow : Style::Green;
}

/// Pieces of a chart begin with their letter and end before the next one, an idle time or a space.
std::string coloured(const std::string& chart) {
  if (!hasColours(stdout)) {
    return chart;
  }
  constexpr std::string_view kLetters = "FBW";
  std::string text;
  for (std::size_t i = 0; i < chart.size();) {
    std::size_t end = i + 1;
    if (kLetters.find(chart[i]) == std::string_view::npos) {
      text += chart[i];
    } else {
      end = std::min(chart.find_first_of("FBW. \n", end), chart.size());
      text += styled(chart.substr(i, end - i), styleOf(chart[i]), stdout);
    }
    i = end;
  }
  return text;
}

std::string simulatedJson(const ScheduleRequest& request, const OutputOptions& options) {
  if (!options.simulated) {
    return "";
  }
  return fmt::format(
      ",\"simulated\":{{\"makespan\":{},\"busyShare\":{:.6g},\"waitedForPorts\":{}}}",
      inUnit(options.simulated->makespan, request.timeUnit, kExact),
      options.simulated->busyShare,
      inUnit(options.simulated->waitedForPorts, request.timeUnit, kExact));
}

}  // namespace

SimulatedPipeline simulatePipeline(const ScheduleRequest& request, const PipelineSchedule& result) {
  const program::Program program = program::bareProgram(result, request.problem);
  runtime::SimCosts costs;
  const auto cost = [&](const program::Segment& segment) {
    const schedule::StageCost& stage =
        request.problem.costs[static_cast<std::size_t>(segment.stage)];
    switch (segment.kind) {
      case program::SegmentKind::Forward:
        return stage.forward;
      case program::SegmentKind::BackwardInput:
        return stage.backwardInput;
      case program::SegmentKind::BackwardWeight:
        return stage.backwardWeight;
      default:
        return stage.backwardInput + stage.backwardWeight;
    }
  };
  std::int64_t busy = 0;
  for (const program::Segment& segment : program.segments) {
    costs.segments.push_back({.busy = cost(segment)});
  }
  const auto stages = static_cast<std::int32_t>(request.problem.deviceOfStage.size());
  for (std::size_t d = 0; d < result.devices.size(); ++d) {
    costs.resources.push_back({.name = fmt::format("out {}", d)});
    costs.resources.push_back({.name = fmt::format("in {}", d)});
  }
  for (std::int32_t t = 0; t < 2 * stages; ++t) {
    const std::int32_t stage = t % stages;
    const std::int32_t next = std::clamp(t < stages ? stage + 1 : stage - 1, 0, stages - 1);
    costs.transfers.push_back(
        {.busy = request.copies->busy,
         .latency = request.copies->latency,
         .resources = {2 * request.problem.deviceOfStage[static_cast<std::size_t>(stage)],
                       2 * request.problem.deviceOfStage[static_cast<std::size_t>(next)] + 1}});
  }
  const runtime::SimRun run = runtime::simulate(program, costs, {.keepsTimes = false});
  std::int64_t devices = 0;
  for (std::size_t d = 0; d < result.devices.size(); ++d) {
    busy += run.laneTicks[d];
    devices += result.devices[d].empty() ? 0 : 1;
  }
  SimulatedPipeline simulated{.makespan = run.end};
  simulated.busyShare = run.end == 0 ? 0
                                     : static_cast<double>(busy) / static_cast<double>(run.end) /
                                           static_cast<double>(devices);
  for (const runtime::ResourceUse& use : run.resources) {
    simulated.waitedForPorts += use.waited;
  }
  simulated.waitedForPorts /= 2;  // each copy waits for two ports at once
  return simulated;
}

void printTimelineJson(const ScheduleRequest& request,
                       const PipelineSchedule& result,
                       const OutputOptions& options) {
  std::vector<std::string> devices;
  for (const auto& device : result.devices) {
    if (options.summary) {
      break;
    }
    std::vector<std::string> pieces;
    pieces.reserve(device.size());
    for (const Work& w : device) {
      pieces.push_back(jsonPiece(letter(w.kind),
                                 w.stage,
                                 w.microBatch,
                                 inUnit(w.start, request.timeUnit, kExact),
                                 inUnit(w.end, request.timeUnit, kExact)));
    }
    devices.push_back(fmt::format("[{}]", fmt::join(pieces, ",")));
  }
  fmt::print("{}",
             jsonOf(fmt::format("{}", fmt::join(devices, ",")),
                    totalsOf(request, result, kExact),
                    fmt::format("\"stash\":[{}],\"busy\":[{}],\"bubble\":[{}],\"peak\":[{}],"
                                "\"rampShare\":{:.6g},\"schedule\":\"{}\"{}",
                                fmt::join(result.stashDepth, ","),
                                inUnits(result.busy, request.timeUnit, kExact),
                                inUnits(result.bubble, request.timeUnit, kExact),
                                inUnits(result.peakBytes, request.byteUnit, kExact),
                                result.rampShare,
                                name(result.kind),
                                simulatedJson(request, options))));
}

void printTimeline(const ScheduleRequest& request,
                   const PipelineSchedule& result,
                   const OutputOptions& options) {
  if (!options.summary) {
    fmt::print("{}\n", coloured(drawChart(request, result, options.width)));
  }
  const Totals totals = totalsOf(request, result, kReadable);
  const double percent = result.bound == 0
                             ? 0
                             : 100.0 * static_cast<double>(result.makespan - result.bound) /
                                   static_cast<double>(result.bound);
  fmt::print("schedule    {}, {} stages on {} devices, {} micro-batches\n",
             name(result.kind),
             request.problem.deviceOfStage.size(),
             result.devices.size(),
             request.problem.microBatches);
  fmt::print("makespan    {}\n", totals.makespan);
  fmt::print("bound       {}\n", totals.bound);
  fmt::print("gap         {} ({:.2f}%)\n", totals.gap, percent);
  constexpr std::size_t kMostListed = 64;
  const bool listed = !options.summary || result.devices.size() <= kMostListed;
  if (listed) {
    fmt::print("bubble      {} per device\n", inUnits(result.bubble, request.timeUnit, kReadable));
  }
  fmt::print("ramp share  {:.2f}% of all devices' time is idle\n", 100 * result.rampShare);
  if (listed) {
    fmt::print("memory      {} per device at most\n",
               inUnits(result.peakBytes, request.byteUnit, kReadable));
  }
  if (options.simulated) {
    fmt::print(
        "simulated   makespan {} with copies of {} and {}, devices busy {:.2f}%, {} waited for "
        "ports\n",
        inUnit(options.simulated->makespan, request.timeUnit, kReadable),
        inUnit(request.copies->busy, request.timeUnit, kReadable),
        inUnit(request.copies->latency, request.timeUnit, kReadable),
        100 * options.simulated->busyShare,
        inUnit(options.simulated->waitedForPorts, request.timeUnit, kReadable));
  }
  if (!listed) {
    return;
  }
  fmt::print("stash       {} micro-batches per stage at most\n", fmt::join(result.stashDepth, " "));
}

void printCyclesJson(const ScheduleRequest& request) {
  const CycleFacts facts = cycleFacts(request);
  const schedule::CyclePhases phases = cyclePhases(request.kind, request.problem);
  std::vector<std::string> devices;
  for (const auto& device : facts.table.devices) {
    std::vector<std::string> pieces;
    for (std::size_t cycle = 0; cycle < device.size(); ++cycle) {
      for (const Cell& cell : device[cycle]) {
        pieces.push_back(jsonPiece(cell.letter,
                                   cell.stage,
                                   cell.microBatch,
                                   std::to_string(cycle),
                                   std::to_string(cycle + 1)));
      }
    }
    devices.push_back(fmt::format("[{}]", fmt::join(pieces, ",")));
  }
  const Totals totals{std::to_string(facts.table.cycles),
                      std::to_string(facts.bound),
                      std::to_string(facts.table.cycles - facts.bound)};
  fmt::print("{}",
             jsonOf(fmt::format("{}", fmt::join(devices, ",")),
                    totals,
                    fmt::format("\"fill\":{},\"main\":{},\"flush\":{},\"allDevicesBusy\":{},"
                                "\"stash\":[{}],\"schedule\":\"{}\"",
                                phases.fill,
                                phases.main,
                                phases.flush,
                                phases.allDevicesBusy,
                                fmt::join(facts.queues, ","),
                                name(facts.table.kind))));
}

void printCycles(const ScheduleRequest& request) {
  const CycleFacts facts = cycleFacts(request);
  const auto row = [](std::string_view head, const std::vector<std::string>& cells) {
    fmt::print("| {} | {} |\n", head, fmt::join(cells, " | "));
  };
  std::vector<std::string> numbers;
  numbers.reserve(static_cast<std::size_t>(facts.table.cycles));
  for (std::int32_t cycle = 0; cycle < facts.table.cycles; ++cycle) {
    numbers.push_back(std::to_string(cycle));
  }
  row("cycle", numbers);
  row("---", std::vector<std::string>(numbers.size(), "---"));
  for (std::size_t d = 0; d < facts.table.devices.size(); ++d) {
    std::vector<std::string> cells;
    cells.reserve(facts.table.devices[d].size());
    for (const auto& cell : facts.table.devices[d]) {
      cells.push_back(cellText(cell));
    }
    row(fmt::format("dev{}", d), cells);
  }
  const schedule::CyclePhases phases = cyclePhases(request.kind, request.problem);
  fmt::print("\ncycles      {}: {} fill, {} main, {} flush\n",
             facts.table.cycles,
             phases.fill,
             phases.main,
             phases.flush);
  fmt::print("busy        all devices in {} cycles\n", phases.allDevicesBusy);
  fmt::print("ramp share  {:.2f}%\n", 100 * phases.rampShare);
  fmt::print("{}       {} entries per stage\n",
             request.kind == PipelineKind::Popart ? "stash" : "FIFOs",
             fmt::join(facts.queues, " "));
  if (const auto objection = countObjection(request.kind, request.problem)) {
    fmt::print("note        the original system refuses this count: {}\n", *objection);
  }
}

}  // namespace sluice::cli
