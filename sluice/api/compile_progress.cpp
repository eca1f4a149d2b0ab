#include "sluice/api/compile_progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "sluice/api/progress_line.h"
#include "sluice/base/console.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

// Where each phase begins, in hundredths of a typical compilation.
constexpr std::array<std::int64_t, kCompilePhases> kBegins = {0, 2, 25, 27, 60, 65};
constexpr std::string_view kClearLine = "\r\033[K";

bool redraws() {
  const Console taken = console();
  return taken.write ? taken.redraws : isatty(STDERR_FILENO) != 0;
}

void writeToConsole(std::string_view text) {
  if (const Console taken = console(); taken.write) {
    taken.write(text);
    return;
  }
  std::fflush(stdout);  // what was printed before stays before
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

/// "01:05"
std::string clockText(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::floor(seconds));
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

double secondsBetween(CompileProgress::Clock::time_point from,
                      CompileProgress::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

CompileProgress::Style CompileProgress::styleFor(std::optional<bool> shown, bool terminal) {
  if (!shown.value_or(terminal)) {
    return Style::Silent;
  }
  return terminal ? Style::Redraw : Style::Line;
}

CompileProgress::CompileProgress(std::optional<bool> shown)
    : CompileProgress(styleFor(shown, redraws()), writeToConsole) {
  limitTo([] { return terminalWidth(STDERR_FILENO); });
}

CompileProgress::CompileProgress(Style style, Sink sink, std::function<Clock::time_point()> now)
    : style_(style), sink_(std::move(sink)), now_(std::move(now)), start_(now_()) {}

CompileProgress::~CompileProgress() {
  if (drawn_) {
    sink_(kClearLine);
  }
}

double CompileProgress::seconds() const {
  return secondsBetween(start_, now_());
}

void CompileProgress::endPhase() {
  if (phase_) {
    const double took = secondsBetween(phaseStart_, now_());
    took_[static_cast<std::size_t>(*phase_)] += took;
    log::debug("compile", "{}: {:.3f} ms", name(*phase_), 1e3 * took);
  }
  phase_.reset();
}

void CompileProgress::begin(CompilePhase phase) {
  endPhase();
  if (const Console taken = console(); taken.betweenPhases) {
    taken.betweenPhases();
  }
  phase_ = phase;
  phaseStart_ = now_();
  if (style_ == Style::Redraw) {
    const std::int64_t percent = kBegins[static_cast<std::size_t>(phase)];
    sink_(fmt::format("{}{}", kClearLine, text(percent, name(phase))));
    drawn_ = true;
  }
}

void CompileProgress::finish() {
  endPhase();
  if (style_ == Style::Silent) {
    return;
  }
  std::vector<std::string> parts;
  for (std::size_t p = 0; p < kCompilePhases; ++p) {
    parts.push_back(
        fmt::format("{} {:.0f} ms", name(static_cast<CompilePhase>(p)), 1e3 * took_[p]));
  }
  sink_(fmt::format(
      "{}{}\n", drawn_ ? kClearLine : "", text(100, fmt::format("{}", fmt::join(parts, ", ")))));
  drawn_ = false;
}

std::string CompileProgress::text(std::int64_t percent, std::string_view detail) const {
  const double elapsed = seconds();
  const auto done = static_cast<double>(percent);
  const std::string remaining = percent == 0 ? "?" : clockText(elapsed * (100 - done) / done);
  std::string line = fmt::format(
      "Graph compilation: {}/100 [{}<{}] {}", percent, clockText(elapsed), remaining, detail);
  const std::optional<std::size_t> columns = columns_ ? columns_() : std::nullopt;
  return columns ? std::string(cutTo(line, std::max<std::size_t>(*columns, 1) - 1)) : line;
}

}  // namespace sluice
