// CompileProgress: shows the phases of a compilation. On a terminal one line is drawn again at
// every phase; elsewhere one line is written at the end, if it is asked for:
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

  /// Writes to stderr; redraws if that is a terminal. Not set: only then.
  explicit CompileProgress(std::optional<bool> shown);
  static Style styleFor(std::optional<bool> shown, bool terminal);
  CompileProgress(Style style, Sink sink, std::function<Clock::time_point()> now = Clock::now);
  /// Lines stay below what this returns; not set: they are as long as they are.
  void limitTo(std::function<std::optional<std::size_t>()> columns) {
    columns_ = std::move(columns);
  }
  /// Takes an unfinished line back.
  ~CompileProgress();
  CompileProgress(const CompileProgress&) = delete;
  CompileProgress& operator=(const CompileProgress&) = delete;

  /// Ends the phase before. A phase that is never begun took no time.
  void begin(CompilePhase phase);
  void finish();
  /// Since the object was made.
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
