// CompileProgress: shows the phases of a compilation. On a terminal it redraws one line at every
// phase. Elsewhere it writes one line at the end, and only on request:
//   Graph compilation: 100/100 [00:01<00:00] trace 1 ms, passes 20 ms, plan 2 ms, ...
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/compile/compile_phase.h"

namespace sluice {

using compiler::CompilePhase;
using compiler::kCompilePhases;

class CompileProgress {
 public:
  enum class Style : std::uint8_t { Silent, Line, Redraw };
  using Clock = std::chrono::steady_clock;
  using Sink = std::function<void(std::string_view)>;

  /// Writes to the console (console.h), and redraws the line if that can. If `shown` is not set, it
  /// writes only to a console that can.
  explicit CompileProgress(std::optional<bool> shown);
  static Style styleFor(std::optional<bool> shown, bool terminal);
  CompileProgress(Style style, Sink sink, std::function<Clock::time_point()> now = Clock::now);
  /// Keeps lines shorter than the number of columns that the function returns; nullopt means no
  /// limit.
  void limitTo(std::function<std::optional<std::size_t>()> columns) {
    columns_ = std::move(columns);
  }
  /// Erases an unfinished line.
  ~CompileProgress();
  CompileProgress(const CompileProgress&) = delete;
  CompileProgress& operator=(const CompileProgress&) = delete;

  /// Ends the previous phase. A phase that never begins takes no time.
  void begin(CompilePhase phase);
  void finish();
  /// Seconds since the object was made.
  double seconds() const;

 private:
  void endPhase();
  std::string text(std::int64_t percent, std::string_view detail) const;

  Style style_;
  Sink sink_;
  std::function<Clock::time_point()> now_;
  std::function<std::optional<std::size_t>()> columns_;
  Clock::time_point start_;
  Clock::time_point phaseStart_;
  std::optional<CompilePhase> phase_;
  std::array<double, kCompilePhases> took_{};  // seconds, by phase
  bool drawn_ = false;
};

}  // namespace sluice
