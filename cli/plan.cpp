// sluice plan: how a model from a file should run on some devices. Plans are made by the compiler
// and simulated; nothing is computed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/calibrated.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/graph_file.h"
#include "cli/plan_output.h"
#include "cli/terminal.h"
#include "cli/training_setup.h"
#include "cli/wait_line.h"
#include "sluice/api/fit.h"
#include "sluice/api/model.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/session.h"

namespace sluice::cli {
namespace {

constexpr const char* kMeasured = "sim@measured";

struct PlanCommand {
  GraphFile file;
  std::string device;
  std::string memory;
  std::string loss;
  std::string optimizer = "adamw";
  std::string svg;
  std::int64_t devices = 1;
  std::int64_t microBatches = 0;  ///< 0: twice the devices
  double seconds = 10;
  bool exhaustive = false;
  bool noReplicas = false;
  bool json = false;
  bool run = false;
};

Options optionsOf(const PlanCommand& command, const std::string& device) {
  Options options;
  options.device(device);
  if (!command.memory.empty()) {
    options.memoryPerDevice(std::string_view(command.memory));
  }
  const std::int64_t count = command.microBatches > 0
                                 ? command.microBatches
                                 : std::max<std::int64_t>(1, 2 * command.devices);
  if (command.loss.empty()) {
    options.deviceIterations(count);
  } else {
    options.training.gradientAccumulation(count);
  }
  return options;
}

Model modelOf(const PlanCommand& command, Builder& builder, const Options& options) {
  if (command.loss.empty()) {
    return inferenceModel(builder, options);
  }
  const ir::Output& output = builder.graph().outputs()[0];
  const TensorType type = targetOf(command.loss, builder.graph().type(output.value));
  const TensorId target = builder.addInputTensor(type, "sluice_target");
  const TensorId loss = addLoss(builder, command.loss, output.name, target);
  builder.addOutputTensor(loss);
  return trainingModel(builder, loss, options, *optimizerOf(command.optimizer, 1e-3));
}

std::vector<TensorType> inputTypes(const Builder& builder) {
  std::vector<TensorType> types;
  for (const ir::OpId id : builder.graph().inputs()) {
    types.push_back(builder.graph().op(id).outputs[0]);
  }
  return types;
}

/// The fastest of some steps on the devices of this machine, with made-up inputs.
MeasuredStep measure(const PlanCommand& command, const PlanChoice& choice) {
  using Clock = std::chrono::steady_clock;
  Options options = optionsOf(command, "");
  choice.applyTo(options);
  options.syntheticDataMode(SyntheticDataMode::RandomUniform);
  Builder builder(readModel(command.file, {}, !command.loss.empty()));
  Model model = modelOf(command, builder, options);
  model.compile(std::span<const TensorType>(inputTypes(builder)));
  const WaitLine line("running the best plan");
  MeasuredStep fastest{.seconds = std::numeric_limits<double>::infinity()};
  for (int step = 0; step < 1 + kMeasuredSteps; ++step) {
    const Clock::time_point start = Clock::now();
    const std::clock_t used = std::clock();
    static_cast<void>(model.run(std::vector<HostTensor>()));
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (step > 0 && seconds < fastest.seconds) {  // the first one warms up
      fastest = {seconds, static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC};
    }
  }
  return fastest;
}

void write(const PlanCommand& command, const PlanReport& report, const PlanContext& context) {
  fmt::print("{}", command.json ? planJson(report, context) : planText(report, context));
  if (!command.svg.empty() && report.best) {
    writeFileAtomically(command.svg, planSvg(report));
    tell(fmt::format("wrote {}\n", command.svg));
  }
}

int plan(const PlanCommand& command) {
  requireOutput("--svg", command.svg, {command.file.path});
  const std::string device = command.device.empty() ? kMeasured : command.device;
  if (device == kMeasured) {
    requireMeasured();
  } else if (command.run) {
    throw CLI::ValidationError("--run", "measures this machine, and --device is another one");
  }
  if (!device.starts_with("sim")) {
    throw CLI::ValidationError(
        "--device",
        fmt::format(
            "plans are simulated: '{}' is not; name sim@ipu2, sim@file.json or sim@measured, "
            "which is this machine",
            device));
  }
  const Options options = optionsOf(command, device);
  Builder builder = [&] {
    const WaitLine line("reading " + command.file.path);
    return Builder(readModel(command.file, {}, !command.loss.empty()));
  }();
  if (builder.graph().outputs().empty()) {
    raise<InvalidArgument>("{} has no output: there is nothing to plan", command.file.path);
  }
  Model model = modelOf(command, builder, options);
  const std::vector<TensorType> inputs = inputTypes(builder);
  PlanContext context{command.file.path, !command.memory.empty()};
  PlanReport report;
  int signal = 0;
  {
    WaitLine line("planning");
    const StopSignals signals;
    report = model.findPlan(
        inputs,
        {.devices = command.devices,
         .seconds = command.seconds,
         .exhaustive = command.exhaustive,
         .replicas = !command.noReplicas,
         .progress =
             [&](const PlanProgress& p) {
               line.say(fmt::format(
                   "planning: {} plans, {} fit; Ctrl-C takes the best so far", p.tried, p.fitting));
             },
         .stop = [&] { return signals.seen() != 0; }});
    signal = signals.seen();
    context.interrupted = signal != 0;
  }
  if (command.run && report.best && !context.interrupted) {
    context.measured = measure(command, report.best->choice);
  }
  write(command, report, context);
  return signal != 0 ? exitCodeOf(signal) : report.best ? 0 : kFailed;
}

void addTraining(CLI::App& app, PlanCommand& command) {
  app.add_option("--loss",
                 command.loss,
                 "Plan training with this loss of the first output; without it, inference")
      ->check(CLI::IsMember(lossNames()));
  app.add_option("--optimizer", command.optimizer, "sgd, adam or adamw")
      ->check(CLI::IsMember(optimizerNames()))
      ->capture_default_str();
  app.add_option("--micro-batches",
                 command.microBatches,
                 "Micro-batches of a step; in training, of a weight update  [twice the devices]")
      ->transform(wholeNumber<std::int64_t>(1, 1 << 16));
}

}  // namespace

void addPlan(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("plan", "Find how a model should run on devices of limited memory");
  command->footer(
      "Strategies, cuts, schedules, recomputation and offload are planned by the compiler and\n"
      "simulated. Without --device, times are those of this machine (`sluice calibrate`). The "
      "exit\n"
      "code is 1 if nothing fits. Examples:\n"
      "  sluice plan model.onnx --devices 4 --memory 64MiB\n"
      "  sluice plan model.onnx --dim N=8 --loss cross_entropy --devices 2 --svg plan.svg");
  auto settings = std::make_shared<PlanCommand>();
  addGraphFile(*command, settings->file);
  command->add_option("--devices", settings->devices, "Devices that a plan may use")
      ->transform(wholeNumber<std::int64_t>(1, 64))
      ->capture_default_str();
  command
      ->add_option(
          "--memory", settings->memory, "Memory of a device, as 64MiB  [that of the target]")
      ->check([](const std::string& text) -> std::string {
        try {
          static_cast<void>(parseBytes(text));
          return "";
        } catch (const InvalidArgument& error) {
          return error.message();
        }
      });
  addTraining(*command, *settings);
  command->add_option("--seconds", settings->seconds, "The search begins no trial after this")
      ->transform(realNumber(0.0))
      ->capture_default_str();
  command->add_flag("--exhaustive",
                    settings->exhaustive,
                    "Also try plans that do more work than another one that fits");
  command->add_flag("--no-replicas",
                    settings->noReplicas,
                    "Try no replicas, which add up gradients in another order than one model");
  command->add_option(
      "--device", settings->device, "Simulated devices: sim@ipu2, sim@file.json  [sim@measured]");
  command->add_flag(
      "--run", settings->run, "Also run the best plan on this machine and print the measured step");
  command->add_flag("--json", settings->json, "Print everything that was found as JSON");
  command->add_option("--svg", settings->svg, "Draw the devices of the best plan to this file");
  command->callback([&action, settings] { action = [settings] { return plan(*settings); }; });
}

}  // namespace sluice::cli
