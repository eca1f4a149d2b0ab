// What `sluice launch` does with processes: runs mpirun once, and in each rank the program.
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

namespace sluice::cli {

struct LaunchOutcome {
  int code = 0;          ///< of the rank that failed first, else of mpirun
  std::size_t lost = 0;  ///< ranks that were killed, or that nothing was heard of
};

/// The signal by which ranks are asked to end their programs: mpirun passes it on, and programs
/// that do not know it ignore it.
inline constexpr int kEnd = SIGURG;

/// From now on the first SIGINT, SIGTERM or SIGHUP asks the programs of all ranks to end, with all
/// the time that they need, and the second one ends them.
void passSignalsOn();
/// The first of these signals; 0: none.
int passedSignal();

/// Runs mpirun with `ranks` ranks. After the first has failed, the others have `patience` to end.
/// Throws Unsupported if there is no mpirun.
LaunchOutcome runOnce(const std::vector<std::string>& command,
                      std::size_t ranks,
                      std::chrono::duration<double> patience);

/// Runs the program of one rank and tells the launcher how it ended, even if it was killed.
int runRank(std::vector<std::string> program);

/// Whether a command ends in time, and well; what it says is not shown.
bool succeeds(const std::vector<std::string>& command, std::chrono::duration<double> limit);

}  // namespace sluice::cli
