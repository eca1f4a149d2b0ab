#include "cli/launch_streams.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "sluice/base/error.h"

namespace sluice::cli {
namespace {

/// Whether a child has ended; its exit code can still be asked for.
bool hasEnded(pid_t process) {
  siginfo_t found{};
  return waitid(P_PID, static_cast<id_t>(process), &found, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         found.si_pid == process;
}

}  // namespace

Pipe::Pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    raise<DeviceError>("cannot make a pipe");
  }
  read = ends[0];
  write = ends[1];
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

void print(std::FILE* to, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

int awaitExit(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : exitCodeOf(WTERMSIG(status));
}

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

}  // namespace sluice::cli
