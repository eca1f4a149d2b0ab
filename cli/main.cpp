// sluice: look at graphs, programs and devices from the command line.
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "sluice/base/version.h"

int main(int argc, char** argv) {
  CLI::App app("Sluice runs one neural network across many memory-limited devices.", "sluice");
  app.footer("`sluice COMMAND --help` explains a command.");
  app.require_subcommand(1);
  app.set_version_flag(
      "--version", fmt::format("sluice {}", sluice::version()), "Print the version");
  sluice::cli::Action action;
  sluice::cli::addVersion(app, action);
  sluice::cli::addBenchData(app, action);
  sluice::cli::addConvert(app, action);
  sluice::cli::addDevices(app, action);
  sluice::cli::addInspect(app, action);
  sluice::cli::addOps(app, action);
  sluice::cli::addSchedule(app, action);
  sluice::cli::addTune(app, action);
  return sluice::cli::runProgram(app, argc, argv, [&] { return action(); });
}
