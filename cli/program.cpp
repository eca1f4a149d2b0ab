#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// Without the mark in `sluice launch -n 2 -- program`, which may stand before the program that is
/// not parsed anyway, and would end the command for the parser.
std::vector<char*> withoutMark(const CLI::App& app, std::span<char*> arguments) {
  constexpr std::string_view kCommand = "launch";
  std::vector<char*> kept(arguments.begin(), arguments.end());
  if (kept.size() < 2 || kept[1] != kCommand) {
    return kept;
  }
  const CLI::App* launch = app.get_subcommand(std::string(kCommand));
  for (std::size_t i = 2; i < kept.size(); ++i) {
    const std::string text = kept[i];
    if (text == "--") {
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    if (!text.starts_with('-')) {
      break;  // the program; what follows is its own
    }
    const CLI::Option* option = launch->get_option_no_throw(text);
    i += option != nullptr && option->get_items_expected_max() > 0 ? 1 : 0;
  }
  return kept;
}

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
  std::vector<char*> arguments = withoutMark(app, std::span(argv, static_cast<std::size_t>(argc)));
  return runProgram(
      app, static_cast<int>(arguments.size()), arguments.data(), [&] { return action(); });
}

}  // namespace sluice::cli
