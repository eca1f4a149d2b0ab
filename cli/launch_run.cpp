#include "cli/launch_run.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/launch_lines.h"
#include "cli/launch_merge.h"
#include "sluice/base/error.h"

extern char**
    environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX has it so

namespace sluice::cli {
namespace {

/// How long a line of errors waits for other ranks to say the same.
constexpr std::chrono::milliseconds kMergeTime{500};
/// How long it may take until all ranks are there, and twice their patience besides.
constexpr std::chrono::duration<double> kStart{30};
/// How often a rank gives a sign of life.
constexpr std::chrono::seconds kBeat{1};

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

void print(std::FILE* to, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

/// Whether a child has ended; its exit code can still be asked for.
bool hasEnded(pid_t process) {
  siginfo_t found{};
  return waitid(P_PID, static_cast<id_t>(process), &found, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         found.si_pid == process;
}

/// Gives the lines of a pipe to `put` until the last writer has closed it, or until `writer` has
/// ended and nothing more is there: what it has started may hold the pipe for ever. Calls `idle`
/// now and then.
void forEachLine(int from,
                 pid_t writer,
                 LineFilter filter,
                 const std::function<void(std::string)>& put,
                 const std::function<void()>& idle) {
  std::array<char, 4096> buffer{};
  for (bool ended = false; !ended;) {
    const bool last = hasEnded(writer);
    pollfd awaited{.fd = from, .events = POLLIN, .revents = 0};
    if (poll(&awaited, 1, 100) <= 0) {
      idle();
      if (last) {
        put(filter.rest());
        break;
      }
      continue;
    }
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    ended = count <= 0;
    put(ended ? filter.rest() : filter.add({buffer.data(), static_cast<std::size_t>(count)}));
    idle();
  }
  ::close(from);
}

void copyLines(int from, pid_t writer, std::FILE* to, LineFilter filter) {
  forEachLine(
      from, writer, std::move(filter), [&](const std::string& text) { print(to, text); }, [] {});
}

/// Copies both streams of a child until it has closed them or has ended.
void copyBoth(const Pipe& out, const Pipe& err, pid_t writer, const LineFilter& filter) {
  std::thread lines([&] { copyLines(out.read, writer, stdout, filter); });
  copyLines(err.read, writer, stderr, filter);
  lines.join();
}

/// Copies errors of all ranks; what several say appears once.
void copyMerged(int from, pid_t writer, std::size_t ranks, const LineFilter::Replace& filter) {
  MergedLines merged(ranks, kMergeTime);
  forEachLine(
      from,
      writer,
      LineFilter([&](std::string line) {
        merged.add(filter(std::move(line)), MergedLines::Clock::now());
        return std::string();
      }),
      [](const std::string&) {},
      [&] { print(stderr, merged.due(MergedLines::Clock::now())); });
  print(stderr, merged.rest());
}

/// Ends mpirun and all ranks some time after the first of them has failed: the others need as long
/// to notice it, and one that is stopped would stay for ever. Ranks that run notice by themselves
/// that another one is lost. Once a rank has ended well, nobody may be left to notice it, so that
/// the launcher listens for signs of life, too.
class Supervisor {
 public:
  Supervisor(pid_t mpirun, std::size_t ranks, std::chrono::duration<double> patience)
      : mpirun_(mpirun), ranks_(ranks), patience_(patience), thread_([this] { run(); }) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor() { end(); }

  void note(int rank, int code) {
    {
      const std::scoped_lock lock(mutex_);
      heard_[rank] = Clock::now();
      if (code >= 0 && code <= 128) {
        ended_.insert(rank);
      }
      if (code != kLives) {
        changed_.notify_all();
      }
    }
    if (code <= 0) {
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
      over_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) {
      thread_.join();
    }
    return code_;
  }
  /// Whether every rank has ended and none has failed, after the end: how mpirun ended is of no
  /// interest then.
  bool allDone() const { return code_ == 0 && ended_.size() == ranks_; }
  /// How many ranks were killed or have said nothing, after the end.
  std::size_t lost() const { return ranks_ - std::min(ranks_, ended_.size()); }

 private:
  using Clock = std::chrono::steady_clock;

  void run() {
    std::unique_lock lock(mutex_);
    // mpirun itself waits for ever for a host that it could reach and that then says nothing.
    const auto start = kStart + 2 * patience_;
    if (!changed_.wait_for(
            lock, start, [&] { return heard_.size() == ranks_ || code_ != 0 || over_; })) {
      fmt::print(stderr,
                 "sluice launch: {} of {} ranks have started within {:.0f} s\n",
                 heard_.size(),
                 ranks_,
                 start.count());
      code_ = 1;
      endAll(lock);
      return;
    }
    if (isSilent(lock) || !changed_.wait_for(lock, patience_, [&] { return over_; })) {
      endAll(lock);
    }
  }
  /// Waits until a rank fails or all is over (false), or until some ranks have ended and those that
  /// are left give no sign of life (true).
  bool isSilent(std::unique_lock<std::mutex>& lock) {
    Clock::time_point before = Clock::now();
    while (!changed_.wait_for(lock, kBeat, [&] { return code_ != 0 || over_; })) {
      const Clock::time_point now = Clock::now();
      if (now - before > patience_ / 2) {  // this process was stopped itself
        for (auto& [rank, heard] : heard_) {
          heard = now;
        }
      }
      before = now;
      if (!ended_.empty() && nameSilent(now)) {
        return true;
      }
    }
    return false;
  }
  /// Whether no rank is left that may still end, or one is left that says nothing any more.
  bool nameSilent(Clock::time_point now) {
    Clock::time_point last{};
    bool silent = false;
    for (const auto& [rank, heard] : heard_) {
      last = std::max(last, heard);
      if (!ended_.contains(rank) && now - heard > patience_) {
        fmt::print(
            stderr, "sluice launch: rank {} gives no sign of life, and others have ended\n", rank);
        code_ = 1;
        silent = true;
      }
    }
    return silent || (ended_.size() == ranks_ && now - last > patience_);
  }
  void endAll(std::unique_lock<std::mutex>& lock) {
    fmt::print(stderr, "sluice launch: ending the ranks that are left\n");
    kill(mpirun_, SIGTERM);
    if (!changed_.wait_for(lock, std::chrono::seconds(10), [&] { return over_; })) {
      kill(mpirun_, SIGKILL);
    }
  }

  pid_t mpirun_;
  std::size_t ranks_;
  std::chrono::duration<double> patience_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  int code_ = 0;
  bool over_ = false;
  std::map<int, Clock::time_point> heard_;  // by rank, those that have begun
  std::set<int> ended_;                     // ranks that ended by themselves
  std::thread thread_;                      // last: it uses the others
};

/// Says every now and then that a child lives, unless it is stopped.
class SignsOfLife {
 public:
  SignsOfLife(int rank, pid_t process) : thread_([this, rank, process] { run(rank, process); }) {}
  SignsOfLife(const SignsOfLife&) = delete;
  SignsOfLife& operator=(const SignsOfLife&) = delete;
  ~SignsOfLife() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

 private:
  void run(int rank, pid_t process) {
    bool stopped = false;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBeat, [&] { return over_; })) {
      siginfo_t change{};
      while (waitid(P_PID, static_cast<id_t>(process), &change, WSTOPPED | WCONTINUED | WNOHANG) ==
                 0 &&
             change.si_pid == process) {
        stopped = change.si_code != CLD_CONTINUED;
        change = {};
      }
      if (!stopped) {
        print(stdout, exitNote(rank, kLives));
      }
    }
  }

  std::mutex mutex_;  // guards over_
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

/// Starts a command with its streams in two files; throws Unsupported if there is none.
pid_t startChild(std::vector<std::string> command, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t started = 0;
  std::vector<char*> arguments = pointersTo(command);
  const int failure =
      posix_spawnp(&started, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    raise<Unsupported>(
        "cannot start mpirun ({}): several processes need Open MPI; install openmpi-bin",
        std::generic_category().message(failure));
  }
  return started;
}

}  // namespace

void passSignalsOn() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction handler = {};
    handler.sa_handler = passOn;
    sigaction(signal, &handler, nullptr);
  }
}

int passedSignal() {
  return signalled.load();
}

LaunchOutcome runOnce(const std::vector<std::string>& command,
                      std::size_t ranks,
                      std::chrono::duration<double> patience) {
  const Pipe out;
  const Pipe err;
  const pid_t started = startChild(command, out.write, err.write);
  ::close(out.write);
  ::close(err.write);
  child.store(started);
  Supervisor supervisor(started, ranks, patience);
  const LineFilter::Replace withoutNotes = [&](std::string line) {
    int rank = 0;
    int code = 0;
    if (!isExitNote(line, rank, code)) {
      return line;
    }
    supervisor.note(rank, code);
    return std::string();
  };
  std::thread lines([&] { copyLines(out.read, started, stdout, LineFilter(withoutNotes)); });
  copyMerged(err.read, started, ranks, withoutNotes);
  lines.join();
  const int own = awaitExit(started);
  const int code = supervisor.end();
  return {.code = code != 0 || supervisor.allDone() ? code : own, .lost = supervisor.lost()};
}

int runRank(std::vector<std::string> program) {
  const char* const text = std::getenv("OMPI_COMM_WORLD_RANK");
  const int rank = text != nullptr ? std::atoi(text) : 0;
  passSignalsOn();
  fmt::print("{}", exitNote(rank, kBegins));
  std::fflush(stdout);
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
  {
    const SignsOfLife signs(rank, started);
    copyBoth(out, err, started, LineFilter([&](std::string line) {
               return fmt::format("rank {}: {}", rank, line);
             }));
  }
  const int code = awaitExit(started);
  fmt::print("{}", exitNote(rank, code));
  std::fflush(stdout);
  return 0;  // mpirun has nothing to say about it
}

bool succeeds(const std::vector<std::string>& command, std::chrono::duration<double> limit) {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const pid_t started = startChild(command, nowhere, nowhere);
  ::close(nowhere);
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(started, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(started, SIGKILL);
      waitpid(started, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace sluice::cli
