// sluice schedule: the orders, times and bounds of a pipeline, from counts and costs alone.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/schedule_input.h"
#include "cli/schedule_output.h"
#include "cli/schedule_svg.h"
#include "cli/schedule_table.h"
#include "cli/terminal.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"

namespace sluice::cli {
namespace {

using schedule::PipelineKind;
using schedule::PipelineSchedule;

constexpr std::int32_t kColumns = 100;  // where there is no terminal

constexpr const char* kExamples =
    "Examples:\n"
    "  sluice schedule --stages 4 --micro-batches 8 --schedule all\n"
    "      times, idle share and memory of every schedule\n"
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
    settings.json ? printCyclesJson(request) : printCycles(request);
    return 0;
  }
  const PipelineSchedule result = scheduleOf(request);
  if (!settings.svg.empty()) {
    writeFileAtomically(settings.svg, drawSvg(request, result));
  }
  const std::optional<SimulatedPipeline> simulated =
      request.copies ? std::optional(simulatePipeline(request, result)) : std::nullopt;
  const OutputOptions output{
      .width = settings.width > 0 ? settings.width : columnsOf(stdout, kColumns),
      .summary = settings.summary,
      .simulated = simulated};
  settings.json ? printTimelineJson(request, result, output)
                : printTimeline(request, result, output);
  return 0;
}

void addOptions(CLI::App& command, ScheduleSettings& settings) {
  std::vector<std::string_view> names;
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    names.push_back(name(kind));
  }
  command.add_option("--stages", settings.stages, "Stages, each on a device of its own")
      ->transform(wholeNumber<std::int32_t>(1, kMostStages));
  command.add_option("--micro-batches", settings.microBatches, "Micro-batches")
      ->transform(wholeNumber<std::int32_t>(1, kMostCells))
      ->required();
  command
      .add_option("--schedule",
                  settings.schedule,
                  fmt::format("{}; all: a table of them", fmt::join(names, ", ")))
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
  command
      .add_option("--chunks",
                  settings.chunks,
                  "Parts of equal cost that each stage is cut into; chunked visits the devices "
                  "in rounds, zero-bubble forth and back [2 for these two, else 1]")
      ->transform(wholeNumber<std::int32_t>(1, kMostStages));
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
  command
      .add_option("--width",
                  settings.width,
                  fmt::format("Columns of the chart  [the terminal's, else {}]", kColumns))
      ->transform(wholeNumber<std::int32_t>(20, 10000));
  command.add_flag("--json", settings.json, "As JSON");
  command.add_flag("--summary", settings.summary, "Only the figures, for very large pipelines");
  command.add_option("--copies",
                     settings.copies,
                     "BUSY,LATENCY: also simulate the run with copies that keep the ports of both "
                     "devices busy and arrive later");
  command.add_option("--svg", settings.svg, "Draw the timeline into this file, too");
}

}  // namespace

void addSchedule(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "schedule", "Show how a pipeline runs: order, times, bound, bubbles, memory");
  command->footer(kExamples);
  auto settings = std::make_shared<ScheduleSettings>();
  addOptions(*command, *settings);
  command->callback([&action, settings] {
    if (!settings->svg.empty() && settings->view == "cycles") {
      throw CLI::ValidationError("--svg", "draws the timeline: leave out --view cycles");
    }
    try {
      if (settings->schedule == "all") {
        if (!settings->svg.empty() || settings->view == "cycles") {
          throw CLI::ValidationError("--schedule all",
                                     "is a table: name one schedule for --svg and --view cycles");
        }
        action = [settings, all = readAllSchedules(*settings)] {
          printComparison(all, settings->json);
          return 0;
        };
        return;
      }
      const ScheduleRequest request = readSchedule(*settings);
      action = [settings, request] { return run(*settings, request); };
    } catch (const InvalidArgument& error) {
      throw CLI::ValidationError(error.message());
    }
  });
}

}  // namespace sluice::cli
