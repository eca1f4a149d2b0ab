// The commands of `sluice`: each registers itself with the command line and says what to run.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): another library
class App;
}

namespace sluice::cli {

/// What a command does after its options were parsed; the program's exit code.
using Action = std::function<int()>;

/// The whole program; returns its exit code.
int runSluice(int argc, char** argv);

/// The names of all commands.
std::vector<std::string_view> commandNames();
/// Adds the command of this name, or all if there is none such. Parsing sets the action of the one
/// that was given.
void addCommands(CLI::App& app, Action& action, std::string_view wanted = {});

void addBenchData(CLI::App& app, Action& action);
void addCache(CLI::App& app, Action& action);
void addCalibrate(CLI::App& app, Action& action);
void addCompletion(CLI::App& app, Action& action);
void addConvert(CLI::App& app, Action& action);
void addVersion(CLI::App& app, Action& action);
void addDevices(CLI::App& app, Action& action);
void addDiff(CLI::App& app, Action& action);
void addInspect(CLI::App& app, Action& action);
void addLaunch(CLI::App& app, Action& action);
void addOps(CLI::App& app, Action& action);
void addPlan(CLI::App& app, Action& action);
void addReport(CLI::App& app, Action& action);
void addRun(CLI::App& app, Action& action);
void addSchedule(CLI::App& app, Action& action);
void addTrain(CLI::App& app, Action& action);
void addTune(CLI::App& app, Action& action);

}  // namespace sluice::cli
