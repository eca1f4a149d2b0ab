// A rank of `sluice launch`: starts the program, tells the launcher how it fares, and sees to it
// that nothing of it is left.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/launch_run.h"
#include "cli/launch_streams.h"
#include "cli/terminal.h"
#include "sluice/base/error.h"

namespace sluice::cli {
namespace {

/// How often a rank gives a sign of life.
constexpr std::chrono::seconds kBeat{1};

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a signal's handler reaches no
// others
std::atomic<pid_t> program{0};  // 0: not started yet
std::atomic<int> early{0};      // a signal from before that
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// The launcher asks by kEnd, once, whether the program would end. What comes from the daemon of
/// MPI went to all processes of its group, so the program has it, too.
void passOn(int signal, siginfo_t* from, void* /*context*/) {
  if (signal != kEnd && (from->si_pid == getppid() || from->si_pid == getpid())) {
    return;
  }
  const int passed = signal == kEnd ? SIGTERM : signal;
  if (const pid_t running = program.load(); running <= 0) {
    early.store(passed);
  } else {  // the program may be a script that waits for another one
    kill(getpgrp() == getpid() ? 0 : running, passed);
  }
}

void passSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, kEnd}) {
    struct sigaction handler = {};
    handler.sa_sigaction = passOn;
    handler.sa_flags = SA_SIGINFO;
    sigaction(signal, &handler, nullptr);
  }
}

/// Ends all processes of this rank, this one included.
void endGroup() {
  if (getpgrp() == getpid()) {
    kill(0, SIGKILL);
  }
  kill(program.load(), SIGKILL);
  _exit(EXIT_FAILURE);
}

/// Copies both streams of a child until it has closed them or has ended.
void copyBoth(const Pipe& out, const Pipe& err, pid_t writer, const LineFilter& filter) {
  std::thread lines([&] { copyLines(out.read, writer, stdout, filter); });
  copyLines(err.read, writer, stderr, filter);
  lines.join();
}

/// Says every now and then that a child lives, unless it is stopped. Ends the rank once the daemon
/// that has started it is gone: nobody would end it later.
class SignsOfLife {
 public:
  SignsOfLife(int rank, pid_t process, pid_t daemon)
      : daemon_(daemon), thread_([this, rank, process] { run(rank, process); }) {}
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
      if (getppid() != daemon_) {
        endGroup();
      }
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

  pid_t daemon_;
  std::mutex mutex_;  // guards over_
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

int runRank(std::vector<std::string> command) {
  const char* const text = std::getenv("OMPI_COMM_WORLD_RANK");
  const int rank = text != nullptr ? std::atoi(text) : 0;
  const pid_t daemon = getppid();
  passSignals();
  signal(SIGPIPE, SIG_IGN);  // if nobody reads any more, the daemon is gone
  fmt::print("{}", exitNote(rank, kBegins));
  std::fflush(stdout);
  const Pipe out;
  const Pipe err;
  const pid_t started = fork();
  if (started == 0) {
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left when this process is ended
    dup2(out.write, STDOUT_FILENO);
    dup2(err.write, STDERR_FILENO);
    execvp(command[0].c_str(), pointersTo(command).data());
    tell(fmt::format("cannot start '{}': {}\n", command[0], std::strerror(errno)));
    _exit(errno == ENOENT ? 127 : 126);
  }
  ::close(out.write);
  ::close(err.write);
  if (started < 0) {
    raise<DeviceError>("cannot start a process: {}", std::strerror(errno));
  }
  program.store(started);
  if (const int before = early.load(); before != 0) {
    kill(started, before);
  }
  {
    const SignsOfLife signs(rank, started, daemon);
    copyBoth(out, err, started, LineFilter([&](std::string line) {
               return fmt::format("rank {}: {}", rank, line);
             }));
  }
  const int code = awaitExit(started);
  fmt::print("{}", exitNote(rank, code));
  std::fflush(stdout);
  return 0;  // mpirun has nothing to say about it
}

}  // namespace sluice::cli
