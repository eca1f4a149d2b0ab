#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "sluice/base/version.h"

namespace sluice::cli {

int runSluice(int argc, char** argv) {
  CLI::App app("Sluice runs one neural network across many memory-limited devices.", "sluice");
  app.footer("`sluice COMMAND --help` explains a command.");
  app.require_subcommand(1);
  app.set_version_flag(
      "--version", fmt::format("sluice {}", sluice::version()), "Print the version");
  Action action;
  addVersion(app, action);
  addBenchData(app, action);
  addCache(app, action);
  addCalibrate(app, action);
  addCompletion(app, action);
  addConvert(app, action);
  addDevices(app, action);
  addDiff(app, action);
  addInspect(app, action);
  addLaunch(app, action);
  addOps(app, action);
  addPlan(app, action);
  addReport(app, action);
  addRun(app, action);
  addSchedule(app, action);
  addTrain(app, action);
  addTune(app, action);
  return runProgram(app, argc, argv, [&] { return action(); });
}

}  // namespace sluice::cli
