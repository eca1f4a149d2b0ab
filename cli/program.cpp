#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "sluice/base/version.h"

namespace sluice::cli {
namespace {

struct Command {
  std::string_view name;
  void (*add)(CLI::App&, Action&);
};

/// In the order of `sluice --help`.
constexpr auto kCommands = std::to_array<Command>({
    {"version", addVersion},
    {"bench-data", addBenchData},
    {"cache", addCache},
    {"calibrate", addCalibrate},
    {"completion", addCompletion},
    {"convert", addConvert},
    {"devices", addDevices},
    {"diff", addDiff},
    {"inspect", addInspect},
    {"launch", addLaunch},
    {"ops", addOps},
    {"plan", addPlan},
    {"report", addReport},
    {"run", addRun},
    {"schedule", addSchedule},
    {"train", addTrain},
    {"tune", addTune},
});

}  // namespace

std::vector<std::string_view> commandNames() {
  std::vector<std::string_view> names;
  names.reserve(kCommands.size());
  for (const Command& command : kCommands) {
    names.push_back(command.name);
  }
  return names;
}

void addCommands(CLI::App& app, Action& action, std::string_view wanted) {
  app.require_subcommand(1);
  const bool isKnown = std::ranges::find(kCommands, wanted, &Command::name) != kCommands.end();
  for (const Command& command : kCommands) {
    if (!isKnown || command.name == wanted) {
      command.add(app, action);
    }
  }
}

int runSluice(int argc, char** argv) {
  CLI::App app("Sluice runs one neural network across many memory-limited devices.", "sluice");
  app.footer("`sluice COMMAND --help` explains a command.");
  app.set_version_flag(
      "--version", fmt::format("sluice {}", sluice::version()), "Print the version");
  Action action;
  addCommands(app, action);
  return runProgram(app, argc, argv, [&] { return action(); });
}

}  // namespace sluice::cli
