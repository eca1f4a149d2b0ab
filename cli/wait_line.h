// A line on standard error for work that may take long: what goes on and for how many seconds. It
// appears on a terminal only, after two seconds, is drawn again every second by a thread, and is
// gone when the object is. Print nothing while one lives.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace sluice::cli {

class WaitLine {
 public:
  static constexpr std::chrono::milliseconds kQuiet{2000};

  /// `isShown`: whether the stream is a terminal.
  explicit WaitLine(std::string what);
  WaitLine(std::string what,
           std::FILE* stream,
           bool isShown,
           std::chrono::milliseconds quiet = kQuiet);
  ~WaitLine();
  WaitLine(const WaitLine&) = delete;
  WaitLine& operator=(const WaitLine&) = delete;

  /// From now on.
  void say(std::string what);

 private:
  void draw();

  std::FILE* stream_;
  std::chrono::milliseconds quiet_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;  // guarded by the mutex, as all below
  bool ends_ = false;
  std::thread thread_;  // none if nothing is shown
};

}  // namespace sluice::cli
