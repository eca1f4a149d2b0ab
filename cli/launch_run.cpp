#include "cli/launch_run.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/launch_lines.h"
#include "cli/launch_merge.h"
#include "cli/launch_streams.h"
#include "cli/terminal.h"
#include "sluice/base/error.h"

extern char**
    environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX has it so

namespace sluice::cli {
namespace {

/// How long a line of errors waits for other ranks to say the same.
constexpr std::chrono::milliseconds kMergeTime{500};
/// Room for the lines of a rank, which it has cut itself, and what it writes before them.
constexpr std::size_t kLongest = 2 * LineFilter::kLongest;
/// How long it may take until all ranks are there, and twice their patience besides.
constexpr std::chrono::duration<double> kStart{30};
/// How often a rank gives a sign of life.
constexpr std::chrono::seconds kBeat{1};

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a signal's handler reaches no
// others
std::atomic<pid_t> child{0};     // mpirun; 0: none
std::atomic<bool> begun{false};  // all of its ranks
std::atomic<int> signalled{0};
std::atomic<int> signals{0};
std::atomic<bool> unread{false};  // nobody reads what the launcher writes
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// mpirun would give its ranks a second to end. So ranks that have begun are asked by another
/// signal.
void passOn(int signal) {
  const bool isFirst = signals.fetch_add(1) == 0;
  if (isFirst) {
    signalled.store(signal);
  }
  if (const pid_t running = child.load(); running > 0) {
    kill(running, isFirst && begun.load() ? kEnd : SIGTERM);
  }
}

/// Nobody would see what the ranks go on to print: as if somebody had asked them to end, once.
void passOnUnread(int signal) {
  if (!unread.exchange(true)) {
    passOn(signal);
  }
}

/// A thread that handles no signals of others: two of them would be handled at once, and either
/// first. It hears that nobody reads what it writes, which no other thread would.
template <class Body>
std::thread quietThread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigdelset(&all, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread made(std::move(body));  // inherits the mask
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

/// Copies errors of all ranks; what several say appears once.
void copyMerged(int from, pid_t writer, std::size_t ranks, const LineFilter::Replace& filter) {
  MergedLines merged(ranks, kMergeTime);
  forEachLine(
      from,
      writer,
      LineFilter(
          [&](std::string line) {
            merged.add(filter(std::move(line)), MergedLines::Clock::now());
            return std::string();
          },
          kLongest),
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
      : mpirun_(mpirun),
        ranks_(ranks),
        patience_(patience),
        thread_(quietThread([this] { run(); })) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor() { end(); }

  void note(int rank, int code) {
    {
      const std::scoped_lock lock(mutex_);
      heard_[rank] = Clock::now();
      begun.store(heard_.size() == ranks_);
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
    if (passedSignal() == 0 || code != exitCodeOf(SIGTERM)) {  // else it did as it was asked
      tell(fmt::format(
          "sluice launch: rank {} {}\n",
          rank,
          code > 128 ? fmt::format("was ended by signal {} ({})", code - 128, strsignal(code - 128))
                     : fmt::format("ended with exit code {}", code)));
    }
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
    const auto until = Clock::now() + start;
    const auto isDone = [&] { return heard_.size() == ranks_ || code_ != 0 || over_; };
    while (!changed_.wait_for(lock, kBeat, isDone) && Clock::now() < until && passedSignal() == 0) {
    }
    if (!isDone() && passedSignal() != 0) {  // mpirun may have missed it while it began
      endAll(lock);
      return;
    }
    if (!isDone()) {
      tell(fmt::format("sluice launch: {} of {} ranks have started within {:.0f} s\n",
                       heard_.size(),
                       ranks_,
                       start.count()));
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
    bool isAsked = false;
    while (!changed_.wait_for(lock, kBeat, [&] { return code_ != 0 || over_; })) {
      const Clock::time_point now = Clock::now();
      if (now - before > patience_ / 2) {  // this process was stopped itself
        for (auto& [rank, heard] : heard_) {
          heard = now;
        }
      }
      before = now;
      if (passedSignal() != 0 && !std::exchange(isAsked, true)) {
        tell("sluice launch: asked all ranks to end; a second signal or Ctrl-C ends them now\n");
      }
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
        tell(fmt::format("sluice launch: rank {} gives no sign of life, and others have ended\n",
                         rank));
        code_ = 1;
        silent = true;
      }
    }
    return silent || (ended_.size() == ranks_ && now - last > patience_);
  }
  void endAll(std::unique_lock<std::mutex>& lock) {
    tell("sluice launch: ending the ranks that are left\n");
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

/// Starts a command with its streams in two files, in a process group of its own: Ctrl-C in a
/// terminal is for the launcher alone, since mpirun would leave its ranks alone after a second
/// signal. Throws Unsupported if there is no such command.
pid_t startChild(std::vector<std::string> command, int out, int err) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t started = 0;
  std::vector<char*> arguments = pointersTo(command);
  const int failure =
      posix_spawnp(&started, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
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
    sigfillset(&handler.sa_mask);  // the first one is handled first
    sigaction(signal, &handler, nullptr);
  }
  struct sigaction handler = {};  // also where Python has the signal ignored
  handler.sa_handler = passOnUnread;
  sigfillset(&handler.sa_mask);
  sigaction(SIGPIPE, &handler, nullptr);
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
  begun.store(false);
  child.store(started);
  if (passedSignal() != 0) {  // while mpirun was started
    kill(started, SIGTERM);
  }
  Supervisor supervisor(started, ranks, patience);
  const LineFilter::Replace withoutNotes = [&](std::string line) {
    int rank = 0;
    int code = 0;
    if (line.starts_with("mpirun: Forwarding signal")) {
      return std::string();
    }
    if (!isExitNote(line, rank, code)) {
      return line;
    }
    supervisor.note(rank, code);
    return std::string();
  };
  std::thread lines = quietThread(
      [&] { copyLines(out.read, started, stdout, LineFilter(withoutNotes, kLongest)); });
  copyMerged(err.read, started, ranks, withoutNotes);
  lines.join();
  const int own = awaitExit(started);
  child.store(0);
  const int code = supervisor.end();
  return {.code = code != 0 || supervisor.allDone() ? code : own, .lost = supervisor.lost()};
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
