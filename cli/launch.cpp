// sluice launch: starts a program in several processes over mpirun, starts them again after a
// failure, on fewer processes if some are gone, and makes one report of what they traced.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/launch_run.h"
#include "cli/report_files.h"
#include "cli/terminal.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"

extern char**
    environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX has it so

namespace sluice::cli {
namespace {

struct LaunchSettings {
  std::int64_t processes = 2;
  std::string hosts;
  std::string bind = "none";
  std::int64_t replicas = 0;
  std::int64_t restarts = 0;
  std::vector<std::int64_t> fewer;
  double timeout = 0;
  std::string profile;
  bool dryRun = false;
  std::vector<std::string> program;
};

/// Seconds without a sign of life, as in runtime/process_world.h, and what else the others need.
constexpr double kTimeout = 30;
constexpr double kGrace = 5;

/// The command line that starts this program again: `sluice`, or `python -m sluice`.
std::vector<std::string> ownCommand() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const bool python = std::filesystem::path(self).filename().string().starts_with("python");
  return python ? std::vector<std::string>{self, "-m", "sluice"} : std::vector<std::string>{self};
}

std::vector<std::string> mpirunCommand(const LaunchSettings& settings) {
  std::vector<std::string> command = {"mpirun",
                                      "-n",
                                      std::to_string(settings.processes),
                                      "--oversubscribe",
                                      "--enable-recovery",
                                      "--mca",
                                      "ess_base_forward_signals",
                                      std::to_string(kEnd),
                                      "--bind-to",
                                      settings.bind};
  if (settings.bind != "none") {
    // mpirun's default gives every next rank to another socket, so that neighbouring stages of a
    // pipeline would always be apart. This fills all sockets evenly, each with consecutive ranks.
    command.insert(command.end(), {"--map-by", "socket", "--rank-by", "socket:fill"});
  }
  if (!settings.hosts.empty()) {
    command.insert(command.end(), {"--host", settings.hosts});
  }
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (text.starts_with("SLUICE_")) {
      command.insert(command.end(), {"-x", std::string(text.substr(0, text.find('=')))});
    }
  }
  const std::vector<std::string> own = ownCommand();
  command.insert(command.end(), own.begin(), own.end());
  command.emplace_back("launch-rank");
  command.insert(command.end(), settings.program.begin(), settings.program.end());
  return command;
}

void prepareEnvironment(const LaunchSettings& settings) {
  if (settings.replicas > 0) {
    setenv("SLUICE_REPLICAS", std::to_string(settings.replicas).c_str(), 1);
  }
  if (settings.timeout > 0) {
    setenv("SLUICE_PEER_TIMEOUT", fmt::format("{}", settings.timeout).c_str(), 1);
  }
  if (!settings.profile.empty()) {
    const std::string folder = std::filesystem::absolute(settings.profile).string();
    setenv("SLUICE_PROFILE", nlohmann::json({{"directory", folder}}).dump().c_str(), 1);
  }
  if (geteuid() == 0) {  // mpirun refuses otherwise; in a container everybody is root
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  passSignalsOn();
}

struct Host {
  std::string name;
  std::int64_t processes = 1;
};

std::vector<Host> hostsOf(const std::string& text) {
  std::vector<Host> hosts;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const std::size_t colon = part.rfind(':');
    hosts.push_back({part.substr(0, colon),
                     colon == std::string::npos ? 1 : std::atoll(part.c_str() + colon + 1)});
  }
  return hosts;
}

/// Seconds that a rank has to notice that another one is lost.
std::chrono::duration<double> patienceOf(const LaunchSettings& settings) {
  return std::chrono::duration<double>((settings.timeout > 0 ? settings.timeout : kTimeout) +
                                       kGrace);
}

/// Leaves out hosts where nothing can be started any more.
void leaveOutHosts(LaunchSettings& settings) {
  std::vector<std::string> left;
  std::int64_t places = 0;
  for (const Host& host : hostsOf(settings.hosts)) {
    if (succeeds({"mpirun", "-n", "1", "--host", host.name, "true"}, patienceOf(settings))) {
      left.push_back(fmt::format("{}:{}", host.name, host.processes));
      places += host.processes;
    } else {
      tell(fmt::format("sluice launch: host {} does not answer\n", host.name));
    }
  }
  settings.hosts = fmt::format("{}", fmt::join(left, ","));
  settings.processes = std::min(settings.processes, places);
}

/// Chooses what to go on with after some processes were lost: the largest number that was named
/// and that is left. Throws DeviceError if there is none.
void shrink(LaunchSettings& settings, std::size_t lost) {
  if (settings.fewer.empty()) {
    return;
  }
  std::vector<std::int64_t> numbers = settings.fewer;
  numbers.push_back(settings.processes);
  if (!settings.hosts.empty()) {
    leaveOutHosts(settings);
  } else {
    settings.processes -= static_cast<std::int64_t>(lost);
  }
  std::erase_if(numbers, [&](std::int64_t n) { return n > settings.processes; });
  if (numbers.empty()) {
    raise<DeviceError>("{} processes are left, and --fewer names none so small",
                       settings.processes);
  }
  settings.processes = *std::ranges::max_element(numbers);
}

/// Makes one page and one timeline of the traces that all ranks have left since the begin.
void reportAll(const LaunchSettings& settings, std::filesystem::file_time_type begin) {
  std::vector<std::string> files;
  std::error_code none;  // no folder: no traces
  for (const auto& entry : std::filesystem::recursive_directory_iterator(settings.profile, none)) {
    if (entry.path().extension() == ".slt" && entry.last_write_time() >= begin) {
      files.push_back(entry.path().string());
    }
  }
  if (files.empty()) {
    raise<FileError>("no process has left a trace in '{}': does the program run a model?",
                     settings.profile);
  }
  std::ranges::sort(files);
  const std::filesystem::path folder = settings.profile;
  for (const auto& [name, format] :
       {std::pair("report.html", "html"), {"ranks.json", "perfetto"}}) {
    writeFileAtomically((folder / name).string(), reportOfFiles(files, format));
    fmt::print("{}\n", (folder / name).string());
  }
}

int restartUntilDone(LaunchSettings& settings) {
  for (std::int64_t restart = 0; passedSignal() == 0; ++restart) {
    const LaunchOutcome outcome = runOnce(mpirunCommand(settings),
                                          static_cast<std::size_t>(settings.processes),
                                          patienceOf(settings));
    if (passedSignal() != 0) {
      break;
    }
    if (outcome.code == 0) {
      return 0;
    }
    tell(fmt::format("sluice launch: failed with exit code {}", outcome.code));
    if (restart == settings.restarts) {
      tell("\n");
      return outcome.code;
    }
    const std::int64_t before = settings.processes;
    shrink(settings, outcome.lost);
    tell(fmt::format(
        "; restart {} of {}{}\n",
        restart + 1,
        settings.restarts,
        settings.processes == before ? "" : fmt::format(" with {} processes", settings.processes)));
  }
  return exitCodeOf(passedSignal());
}

int launch(LaunchSettings settings) {
  prepareEnvironment(settings);
  if (settings.dryRun) {
    fmt::print("{}\n", fmt::join(mpirunCommand(settings), " "));
    return 0;
  }
  const auto begin = std::filesystem::file_time_type::clock::now();
  const int code = restartUntilDone(settings);
  if (code == 0 && !settings.profile.empty()) {
    reportAll(settings, begin);
  }
  return code;
}

}  // namespace

void addLaunch(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("launch", "Start a program in several processes over mpirun");
  auto settings = std::make_shared<LaunchSettings>();
  command->add_option("-n,--processes", settings->processes, "Number of processes")
      ->transform(wholeNumber(1, 4096));
  command
      ->add_option("--replicas",
                   settings->replicas,
                   "Replicas of all processes together, for sluice.popdist (SLUICE_REPLICAS)")
      ->transform(wholeNumber(1, 1000000));
  command->add_option("--hosts", settings->hosts, "Where they run: host:processes,...");
  command->add_option("--bind", settings->bind, "Bind each process to a core, socket or none")
      ->check(CLI::IsMember({"none", "core", "socket"}));
  command->add_option("--restarts", settings->restarts, "Start all again after a failure, so often")
      ->transform(wholeNumber(0, 1000000));
  command
      ->add_option("--timeout",
                   settings->timeout,
                   "Seconds without a sign of life after which a process is lost")
      ->transform(realNumber(0.1, Bound::Included, 1e6));
  command
      ->add_option("--fewer",
                   settings->fewer,
                   "Numbers of processes that a restart may use if some are gone: 2,1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 4096));
  command->add_option("--profile",
                      settings->profile,
                      "Trace all processes and make one report of them in this folder");
  command->add_flag("--dry-run", settings->dryRun, "Print the command and run nothing");
  command->prefix_command();  // the rest is the program and its arguments
  command->footer(
      "The rest of the line is the program and its arguments; -- may stand before it.\n"
      "Example:\n"
      "  sluice launch -n 4 --profile profile -- python3 train.py --epochs 3");
  command->callback([&action, settings, command] {
    settings->program = command->remaining();
    if (settings->program.empty()) {
      throw CLI::RequiredError("a program to start");
    }
    action = [settings] { return launch(*settings); };
  });
  CLI::App* rank = app.add_subcommand("launch-rank", "What launch starts in every process");
  rank->group("");
  rank->prefix_command();
  rank->callback([&action, rank] {
    if (rank->remaining().empty()) {
      throw CLI::RequiredError("a program to start");
    }
    action = [program = rank->remaining()] { return runRank(program); };
  });
}

}  // namespace sluice::cli
