// sluice: look at graphs, programs and devices from the command line.
// Exit codes: 0 done, 1 the input or the machine is at fault, 2 the command line is.
#include <exception>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/commands.h"
#include "sluice/base/error.h"

int main(int argc, char** argv) {
  CLI::App app("Sluice runs one neural network across many memory-limited devices.");
  app.footer("`sluice COMMAND --help` explains a command.");
  app.require_subcommand(1);
  sluice::cli::Action action;
  sluice::cli::addVersion(app, action);
  sluice::cli::addBenchData(app, action);
  sluice::cli::addDevices(app, action);
  sluice::cli::addInspect(app, action);
  sluice::cli::addOps(app, action);
  sluice::cli::addSchedule(app, action);
  sluice::cli::addTune(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return action();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  } catch (...) {
    fmt::print(stderr, "error: an exception of an unknown type\n");
    return 1;
  }
}
