// sluice calibrate: measures this machine, so that simulated devices have its rates.
#include "sluice/devices/calibrate.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/calibrated.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/graph_file.h"
#include "cli/terminal.h"
#include "cli/wait_line.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/devices/registry.h"
#include "sluice/devices/sim/kernel_cost.h"
#include "sluice/runtime/kernel_times.h"

namespace sluice::cli {
namespace {

constexpr const char* kCalibrateExamples =
    "Examples:\n"
    "  sluice calibrate\n"
    "      rates of this machine's CPU; `sim@measured` is then a device with these\n"
    "  sluice calibrate model.onnx --dim N=8 --threads 4 -o four.json\n"
    "      also times each kernel of a model; sim@four.json uses these times\n"
    "\n"
    "Kernels, copies and threads are measured alone, never a step. Leave the machine idle.\n";

struct CalibrateSettings {
  GraphFile graph;
  std::string device;
  std::string output;
  int threads = 1;
};

/// The times of all kernels of a program, by their keys.
void addKernels(const CalibrateSettings& settings,
                const devices::DeviceName& name,
                devices::sim::SimTarget& target) {
  const program::Program program = compiled(readGraph(settings.graph), settings.device);
  std::vector<std::unique_ptr<device::Device>> made;
  std::vector<device::Device*> all;
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    made.push_back(devices::makeDevice({.name = name, .threads = settings.threads}));
    all.push_back(made.back().get());
  }
  for (const runtime::KernelTime& time : runtime::measureKernels(program, all)) {
    target.kernels[devices::sim::kernelKey(*time.call)] = time.seconds;
  }
}

int run(const CalibrateSettings& settings) {
  requireOutput("--output", settings.output, {settings.graph.path});
  const devices::DeviceName name = devices::chosenDevices(settings.device).at(0);
  const auto device = devices::makeDevice({.name = name, .threads = settings.threads});
  if (device::costModelOf(*device) != nullptr) {
    raise<InvalidArgument>("'{}' is simulated itself: calibrate measures a real device",
                           name.str());
  }
  devices::sim::SimTarget target;
  {
    WaitLine line("measuring " + name.str());
    target = devices::calibrate(*device);
    if (!settings.graph.path.empty()) {
      line.say("measuring the kernels of " + settings.graph.path);
      addKernels(settings, name, target);
    }
  }
  const std::string path = settings.output.empty() ? measuredFile() : settings.output;
  writeFileAtomically(path, print(target));
  fmt::print(
      "{}: {:.4g} Gflop/s in float32, {:.4g} GB/s of memory, {:.4g} GB/s between devices, "
      "{} cores, {} kernels\n",
      path,
      target.flops.f32 * 1e-9,
      target.memoryBytesPerSecond * 1e-9,
      target.machine.peer.bytesPerSecond * 1e-9,
      target.machine.cores,
      target.kernels.size());
  return 0;
}

}  // namespace

std::string measuredFile() {
  std::string path = devices::sim::measuredPath();
  if (path.empty()) {
    raise<InvalidArgument>(
        "there is no folder for measured.json: set SLUICE_CACHE_DIR, or name a file "
        "(calibrate -o file.json, --device sim@file.json)");
  }
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) {
    raise<FileError>(
        "cannot make the folder of '{}': {}; set SLUICE_CACHE_DIR to a folder that can be written, "
        "or name a file (calibrate -o file.json, --device sim@file.json)",
        path,
        failed.message());
  }
  return path;
}

void requireMeasured() {
  if (const std::string path = measuredFile(); !std::filesystem::exists(path)) {
    const auto device = devices::makeDevice({.name = devices::chosenDevices("cpu").at(0)});
    {
      const WaitLine line("measuring this machine");
      writeFileAtomically(path, print(devices::calibrate(*device)));
    }
    tell("measured this machine for sim@measured, as `sluice calibrate` does\n");
  }
}

void addCalibrate(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "Measure kernels and copies of this machine for simulated devices");
  command->footer(kCalibrateExamples);
  auto settings = std::make_shared<CalibrateSettings>();
  addGraphFile(*command, settings->graph);
  command->get_option("graph")->required(false);
  addDeviceOption(*command, settings->device);
  command->add_option("--threads", settings->threads, "Threads of a device")
      ->transform(wholeNumber(1, 1024))
      ->capture_default_str();
  command->add_option("-o,--output",
                      settings->output,
                      "Write the target to this file  [measured.json of sim@measured]");
  command->callback([&action, settings] { action = [settings] { return run(*settings); }; });
}

}  // namespace sluice::cli
