// sluice launch: starts a program in several processes over mpirun, puts the rank before each line
// that a process prints, and starts them again after a failure.
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/launch_lines.h"
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
  double timeout = 0;
  bool dryRun = false;
  std::vector<std::string> program;
};

/// Seconds without a sign of life, as in runtime/process_world.h, and what else the others need.
constexpr double kTimeout = 30;
constexpr double kGrace = 5;

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a signal's handler reaches no
// others
/// The child that gets our signals; 0: none.
std::atomic<pid_t> child{0};
std::atomic<int> signalled{0};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void passOn(int signal) {
  signalled.store(signal);
  if (const pid_t running = child.load(); running > 0) {
    kill(running, signal);
  }
}

void passSignalsOn() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction handler = {};
    handler.sa_handler = passOn;
    sigaction(signal, &handler, nullptr);
  }
}

/// Waits for a child; its exit code, or 128 and the signal that ended it.
int awaitExit(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  child.store(0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : exitCodeOf(WTERMSIG(status));
}

std::vector<char*> pointersTo(std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

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
  const std::vector<std::string> own = ownCommand();
  command.insert(command.end(), own.begin(), own.end());
  command.emplace_back("launch-rank");
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
void copyLines(int from, std::FILE* to, LineFilter filter) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    const bool ended = count <= 0;
    const std::string text =
        ended ? filter.rest() : filter.add({buffer.data(), static_cast<std::size_t>(count)});
    std::fwrite(text.data(), 1, text.size(), to);
    std::fflush(to);
    if (ended) {
      break;
    }
  }
  ::close(from);
}

/// Copies both streams of a child until it has closed them.
void copyBoth(const Pipe& out, const Pipe& err, const LineFilter& filter) {
  std::thread lines([&] { copyLines(out.read, stdout, filter); });
  copyLines(err.read, stderr, filter);
  lines.join();
}

/// Ends mpirun and all ranks some time after the first of them has failed: the others need as long
/// to notice it, and one that is stopped would stay for ever.
class Supervisor {
 public:
  Supervisor(pid_t mpirun, std::chrono::duration<double> patience)
      : mpirun_(mpirun), patience_(patience), thread_([this] { run(); }) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor() { end(); }

  void note(int rank, int code) {
    if (code == 0) {
      return;
    }
    fmt::print(stderr,
               "sluice launch: rank {} {}\n",
               rank,
               code > 128
                   ? fmt::format("was ended by signal {} ({})", code - 128, strsignal(code - 128))
                   : fmt::format("ended with exit code {}", code));
    const std::scoped_lock lock(mutex_);
    code_ = code_ == 0 ? code : code_;
    changed_.notify_all();
  }
  /// No rank is left. Returns the exit code of the rank that failed first; 0: none did.
  int end() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) {
      thread_.join();
    }
    return code_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return code_ != 0 || ended_; });
    if (changed_.wait_for(lock, patience_, [&] { return ended_; })) {
      return;
    }
    fmt::print(stderr, "sluice launch: ending the ranks that are left\n");
    kill(mpirun_, SIGTERM);
    if (!changed_.wait_for(lock, std::chrono::seconds(10), [&] { return ended_; })) {
      kill(mpirun_, SIGKILL);
    }
  }

  pid_t mpirun_;
  std::chrono::duration<double> patience_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  int code_ = 0;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

/// Runs mpirun once; the exit code of the rank that failed first, else that of mpirun.
int runOnce(std::vector<std::string> command, std::chrono::duration<double> patience) {
  const Pipe out;
  const Pipe err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write, STDERR_FILENO);
  pid_t started = 0;
  std::vector<char*> arguments = pointersTo(command);
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
  Supervisor supervisor(started, patience);
  copyBoth(out, err, LineFilter([&](std::string line) {
             int rank = 0;
             int code = 0;
             if (!isExitNote(line, rank, code)) {
               return line;
             }
             supervisor.note(rank, code);
             return std::string();
           }));
  const int own = awaitExit(started);
  const int code = supervisor.end();
  return code != 0 ? code : own;
}

/// Runs the program of one rank and tells the launcher how it ended, even if it was killed.
int runRank(std::vector<std::string> program) {
  const char* const text = std::getenv("OMPI_COMM_WORLD_RANK");
  const int rank = text != nullptr ? std::atoi(text) : 0;
  passSignalsOn();
  const Pipe out;
  const Pipe err;
  const pid_t started = fork();
  if (started == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left when this process is ended
    dup2(out.write, STDOUT_FILENO);
    dup2(err.write, STDERR_FILENO);
    execvp(program[0].c_str(), pointersTo(program).data());
    fmt::print(stderr, "cannot start '{}': {}\n", program[0], std::strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
  }
  ::close(out.write);
  ::close(err.write);
  if (started < 0) {
    raise<DeviceError>("cannot start a process: {}", std::strerror(errno));
  }
  child.store(started);
  copyBoth(out, err, LineFilter([&](std::string line) {
             return fmt::format("rank {}: {}", rank, line);
           }));
  const int code = awaitExit(started);
  fmt::print("{}", exitNote(rank, code));
  std::fflush(stdout);
  return 0;  // mpirun has nothing to say about it
}

void prepareEnvironment(const LaunchSettings& settings) {
  if (settings.replicas > 0) {
    setenv("SLUICE_REPLICAS", std::to_string(settings.replicas).c_str(), 1);
  }
  if (settings.timeout > 0) {
    setenv("SLUICE_PEER_TIMEOUT", fmt::format("{}", settings.timeout).c_str(), 1);
  }
  if (geteuid() == 0) {  // mpirun refuses otherwise; in a container everybody is root
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  passSignalsOn();
}

int launch(const LaunchSettings& settings) {
  prepareEnvironment(settings);
  const std::vector<std::string> command = mpirunCommand(settings);
  if (settings.dryRun) {
    fmt::print("{}\n", fmt::join(command, " "));
    return 0;
  }
  for (std::int64_t restart = 0;; ++restart) {
    // A rank that lives notices within the timeout that another one does not.
    const double timeout = settings.timeout > 0 ? settings.timeout : kTimeout;
    const int code = runOnce(command, std::chrono::duration<double>(timeout + kGrace));
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
      ->check(CLI::Range(0.1, 1e6));
  command->add_flag("--dry-run", settings->dryRun, "Print the command and run nothing");
  command->prefix_command();  // the rest is the program and its arguments
  command->footer("The rest of the line is the program and its arguments.");
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
