// sluice schedule: the orders, times and bounds of a pipeline, from counts and costs alone.
#include <algorithm>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/schedule_chart.h"
#include "cli/schedule_input.h"
#include "sluice/base/error.h"
#include "sluice/schedule/lock_step.h"

namespace sluice::cli {
namespace {

using schedule::Cell;
using schedule::CycleTable;
using schedule::PipelineKind;
using schedule::PipelineSchedule;
using schedule::Work;
using schedule::WorkKind;

constexpr const char* kExamples =
    "Examples:\n"
    "  sluice schedule --stages 4 --micro-batches 8 --schedule zero-bubble\n"
    "      four devices with two chunks each in a V, backward passes in two parts\n"
    "  sluice schedule --stages 3 --micro-batches 5 --schedule popart --view cycles\n"
    "      the cycle table of the PopART guide\n"
    "  sluice schedule --stages 2 --micro-batches 6 --costs '1,1.5,0.5;2,2,1'\n"
    "      1F1B with other costs on each stage\n"
    "  sluice schedule --devices 0,1,2,0 --micro-batches 8 --schedule zero-bubble\n"
    "      --memory-cap 5 --json\n"
    "      device 0 visited twice and at most five activations held by a device, for programs\n"
    "\n"
    "In the chart F is a forward pass, B a backward pass or its input part, W its weight part,\n"
    "followed by the micro-batch and, where a device has several stages, a letter for the stage.\n"
    "The bound holds for every order of the same pieces; a gap of 0 proves the order optimal.\n";

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

template <class Values>
std::string inUnits(const Values& values, std::int64_t unit, std::string_view separator) {
  std::vector<std::string> texts;
  for (const std::int64_t value : values) {
    texts.push_back(inUnit(value, unit));
  }
  return fmt::format("{}", fmt::join(texts, separator));
}

Totals totalsOf(const ScheduleRequest& request, const PipelineSchedule& result) {
  return {inUnit(result.makespan, request.timeUnit),
          inUnit(result.bound, request.timeUnit),
          inUnit(result.makespan - result.bound, request.timeUnit)};
}

std::string timelineJson(const ScheduleRequest& request, const PipelineSchedule& result) {
  std::vector<std::string> devices;
  for (const auto& device : result.devices) {
    std::vector<std::string> pieces;
    for (const Work& w : device) {
      const char letter = w.kind == WorkKind::Forward          ? 'F'
                          : w.kind == WorkKind::BackwardWeight ? 'W'
                                                               : 'B';
      pieces.push_back(jsonPiece(letter,
                                 w.stage,
                                 w.microBatch,
                                 inUnit(w.start, request.timeUnit),
                                 inUnit(w.end, request.timeUnit)));
    }
    devices.push_back(fmt::format("[{}]", fmt::join(pieces, ",")));
  }
  return jsonOf(fmt::format("{}", fmt::join(devices, ",")),
                totalsOf(request, result),
                fmt::format("\"stash\":[{}],\"busy\":[{}],\"bubble\":[{}],\"peak\":[{}],"
                            "\"rampShare\":{:.6g},\"schedule\":\"{}\"",
                            fmt::join(result.stashDepth, ","),
                            inUnits(result.busy, request.timeUnit, ","),
                            inUnits(result.bubble, request.timeUnit, ","),
                            inUnits(result.peakBytes, request.byteUnit, ","),
                            result.rampShare,
                            name(result.kind)));
}

void printTimeline(const ScheduleRequest& request,
                   const PipelineSchedule& result,
                   std::int32_t width) {
  fmt::print("{}\n", drawChart(request, result, width));
  const Totals totals = totalsOf(request, result);
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
  fmt::print("bubble      {} per device\n", inUnits(result.bubble, request.timeUnit, " "));
  fmt::print("ramp share  {:.2f}% of all devices' time is idle\n", 100 * result.rampShare);
  fmt::print("memory      {} per device at most\n",
             inUnits(result.peakBytes, request.byteUnit, " "));
  fmt::print("stash       {} micro-batches per stage at most\n", fmt::join(result.stashDepth, " "));
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

std::string cyclesJson(const CycleFacts& facts) {
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
  return jsonOf(fmt::format("{}", fmt::join(devices, ",")),
                totals,
                fmt::format("\"stash\":[{}],\"schedule\":\"{}\"",
                            fmt::join(facts.queues, ","),
                            name(facts.table.kind)));
}

void printCycles(const ScheduleRequest& request, const CycleFacts& facts) {
  const auto row = [](std::string_view head, const std::vector<std::string>& cells) {
    fmt::print("| {} | {} |\n", head, fmt::join(cells, " | "));
  };
  std::vector<std::string> numbers;
  for (std::int32_t cycle = 0; cycle < facts.table.cycles; ++cycle) {
    numbers.push_back(std::to_string(cycle));
  }
  row("cycle", numbers);
  row("---", std::vector<std::string>(numbers.size(), "---"));
  for (std::size_t d = 0; d < facts.table.devices.size(); ++d) {
    std::vector<std::string> cells;
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

PipelineSchedule scheduleOf(const ScheduleRequest& request) {
  try {
    return schedulePipeline(request.kind, request.problem);
  } catch (Error& error) {
    if (request.byteUnit != 1) {
      error.at(fmt::format("bytes counted in units of 1/{}", request.byteUnit));
    }
    throw;
  }
}

int run(const ScheduleSettings& settings, const ScheduleRequest& request) {
  if (settings.view == "cycles") {
    const CycleFacts facts = cycleFacts(request);
    if (settings.json) {
      fmt::print("{}", cyclesJson(facts));
    } else {
      printCycles(request, facts);
    }
    return 0;
  }
  const PipelineSchedule result = scheduleOf(request);
  if (settings.json) {
    fmt::print("{}", timelineJson(request, result));
  } else {
    printTimeline(request, result, settings.width);
  }
  return 0;
}

void addOptions(CLI::App& command, ScheduleSettings& settings) {
  std::vector<std::string_view> names;
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    names.push_back(name(kind));
  }
  command.add_option("--stages", settings.stages, "Stages, each on a device of its own");
  command.add_option("--micro-batches", settings.microBatches, "Micro-batches")->required();
  command.add_option("--schedule", settings.schedule, fmt::format("{}", fmt::join(names, ", ")))
      ->capture_default_str();
  command.add_option("--view", settings.view, "timeline: event-driven; cycles: in lock step")
      ->check(CLI::IsMember({"timeline", "cycles"}))
      ->capture_default_str();
  command
      .add_option("--costs",
                  settings.costs,
                  "F,B,W: forward pass, input part and weight part of the backward pass of every "
                  "stage, or F,B,W;F,B,W;... for each")
      ->capture_default_str();
  command.add_option("--chunks",
                     settings.chunks,
                     "Parts of equal cost that each stage is cut into; chunked visits the devices "
                     "in rounds, zero-bubble forth and back [2 for these two, else 1]");
  command.add_option("--devices", settings.devices, "Device of each stage, for example 0,1,1,0");
  command.add_option(
      "--slots", settings.slots, "Place of each stage in the data flow; equal: concurrent");
  command.add_option("--transfer", settings.transfer, "Latency between devices")
      ->capture_default_str();
  command
      .add_option("--bytes",
                  settings.bytes,
                  "A,W: activations and inputs of the weight part that a micro-batch holds, or "
                  "A,W;A,W;... for each stage")
      ->capture_default_str();
  command.add_option(
      "--memory-cap",
      settings.memoryCap,
      "Most a device may hold, in the unit of --bytes; one number or one per device");
  command.add_flag("--inference", settings.inference, "Forward passes only");
  command.add_option("--width", settings.width, "Columns of the chart")
      ->check(CLI::Range(20, 10000))
      ->capture_default_str();
  command.add_flag("--json", settings.json, "As JSON");
}

}  // namespace

void addSchedule(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "schedule", "Show how a pipeline runs: order, times, bound, bubbles, memory");
  command->footer(kExamples);
  auto settings = std::make_shared<ScheduleSettings>();
  addOptions(*command, *settings);
  command->callback([&action, settings] {
    try {
      const ScheduleRequest request = readSchedule(*settings);
      action = [settings, request] { return run(*settings, request); };
    } catch (const InvalidArgument& error) {
      throw CLI::ValidationError(error.message());
    }
  });
}

}  // namespace sluice::cli
