// sluice launch: starts a program in several processes over mpirun, puts the rank before each line
// that a process prints, and starts them again after a failure.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/launch_lines.h"
#include "sluice/base/error.h"

extern char** environ;

namespace sluice::cli {
namespace {

struct LaunchSettings {
  std::int64_t processes = 2;
  std::string hosts;
  std::string bind = "none";
  std::int64_t restarts = 0;
  double timeout = 0;
  bool dryRun = false;
  std::vector<std::string> program;
};

/// The child that gets our signals; 0: none.
std::atomic<pid_t> child{0};
std::atomic<int> signalled{0};

void passOn(int signal) {
  signalled.store(signal);
  if (const pid_t running = child.load(); running > 0) {
    kill(running, signal);
  }
}

std::vector<std::string> mpirunCommand(const LaunchSettings& settings) {
  std::vector<std::string> command = {"mpirun",
                                      "-n",
                                      std::to_string(settings.processes),
                                      "--tag-output",
                                      "--oversubscribe",
                                      "--enable-recovery",
                                      "--bind-to",
                                      settings.bind};
  if (!settings.hosts.empty()) {
    command.insert(command.end(), {"--host", settings.hosts});
  }
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (text.starts_with("SLUICE_")) {
      command.insert(command.end(), {"-x", std::string(text.substr(0, text.find('=')))});
    }
  }
  command.insert(command.end(), settings.program.begin(), settings.program.end());
  return command;
}

/// A pipe whose ends do not stay open in the child.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      raise<DeviceError>("cannot make a pipe");
    }
    read = ends[0];
    write = ends[1];
  }
  int read = -1;
  int write = -1;
};

/// Copies lines of a pipe to a stream until the last writer has closed it.
void copyLines(int from, std::FILE* to) {
  RankLines lines;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    const bool ended = count <= 0;
    const std::string text =
        ended ? lines.rest() : lines.add({buffer.data(), static_cast<std::size_t>(count)});
    std::fwrite(text.data(), 1, text.size(), to);
    std::fflush(to);
    if (ended) {
      break;
    }
  }
  ::close(from);
}

/// Runs mpirun once; its exit code, or 128 and the signal that ended it.
int runOnce(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const Pipe out;
  const Pipe err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write, STDERR_FILENO);
  pid_t started = 0;
  const int failure =
      posix_spawnp(&started, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(out.write);
  ::close(err.write);
  if (failure != 0) {
    ::close(out.read);
    ::close(err.read);
    raise<Unsupported>(
        "cannot start mpirun ({}): several processes need Open MPI; install openmpi-bin",
        std::generic_category().message(failure));
  }
  child.store(started);
  std::thread lines([&] { copyLines(out.read, stdout); });
  copyLines(err.read, stderr);
  lines.join();
  int status = 0;
  while (waitpid(started, &status, 0) < 0 && errno == EINTR) {
  }
  child.store(0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : exitCodeOf(WTERMSIG(status));
}

void prepareEnvironment(const LaunchSettings& settings) {
  if (settings.timeout > 0) {
    setenv("SLUICE_PEER_TIMEOUT", fmt::format("{}", settings.timeout).c_str(), 1);
  }
  if (geteuid() == 0) {  // mpirun refuses otherwise; in a container everybody is root
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction handler = {};
    handler.sa_handler = passOn;
    sigaction(signal, &handler, nullptr);
  }
}

int launch(const LaunchSettings& settings) {
  prepareEnvironment(settings);
  const std::vector<std::string> command = mpirunCommand(settings);
  if (settings.dryRun) {
    fmt::print("{}\n", fmt::join(command, " "));
    return 0;
  }
  for (std::int64_t restart = 0;; ++restart) {
    const int code = runOnce(command);
    if (code == 0 || signalled.load() != 0) {
      return signalled.load() != 0 ? exitCodeOf(signalled.load()) : 0;
    }
    if (restart == settings.restarts) {
      fmt::print(stderr, "sluice launch: failed with exit code {}\n", code);
      return code;
    }
    fmt::print(stderr,
               "sluice launch: failed with exit code {}; restart {} of {}\n",
               code,
               restart + 1,
               settings.restarts);
  }
}

}  // namespace

void addLaunch(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("launch", "Start a program in several processes over mpirun");
  auto settings = std::make_shared<LaunchSettings>();
  command->add_option("-n,--processes", settings->processes, "Number of processes")
      ->transform(wholeNumber(1, 4096));
  command->add_option("--hosts", settings->hosts, "Where they run: host:processes,...");
  command->add_option("--bind", settings->bind, "Bind each process to a core, socket or none")
      ->check(CLI::IsMember({"none", "core", "socket"}));
  command->add_option("--restarts", settings->restarts, "Start all again after a failure, so often")
      ->transform(wholeNumber(0, 1000000));
  command
      ->add_option("--timeout",
                   settings->timeout,
                   "Seconds without a sign of life after which a process is lost")
      ->check(CLI::Range(0.1, 1e6));
  command->add_flag("--dry-run", settings->dryRun, "Print the command and run nothing");
  command->add_option("program", settings->program, "The program and its arguments")->required();
  command->prefix_command();
  command->callback([&action, settings, command] {
    settings->program.insert(
        settings->program.end(), command->remaining().begin(), command->remaining().end());
    action = [settings] { return launch(*settings); };
  });
}

}  // namespace sluice::cli
