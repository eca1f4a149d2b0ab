#include "cli/wait_line.h"

#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace sluice::cli {

WaitLine::WaitLine(std::string what)
    : WaitLine(std::move(what), stderr, ::isatty(STDERR_FILENO) != 0) {}

WaitLine::WaitLine(std::string what,
                   std::FILE* stream,
                   bool isShown,
                   std::chrono::milliseconds quiet)
    : stream_(stream), quiet_(quiet), what_(std::move(what)) {
  if (isShown) {
    thread_ = std::thread([this] { draw(); });
  }
}

WaitLine::~WaitLine() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
}

void WaitLine::say(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void WaitLine::draw() {
  constexpr std::chrono::seconds kBetween(1);
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, quiet_, [this] { return ends_; })) {
    return;
  }
  do {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_);
    fmt::print(stream_, "\r\x1b[K{}: {} s", what_, seconds.count());
    std::fflush(stream_);
  } while (!changed_.wait_for(lock, kBetween, [this] { return ends_; }));
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
}

}  // namespace sluice::cli
