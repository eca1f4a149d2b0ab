// Where the library writes text for people: log lines and the progress of compilations. By default
// that is stderr. A front end with a console of its own, such as a notebook, can take it over.
#pragma once

#include <functional>
#include <string_view>

namespace sluice {

struct Console {
  /// Gets whole log lines, each with its line break, and parts of progress lines; empty: stderr
  /// gets them. Any thread may call it, and no mutex of the library is locked meanwhile.
  std::function<void(std::string_view)> write = {};
  /// Whether a line can be drawn again after "\r".
  bool redraws = false;
  /// Called between the phases of a compilation, in the thread that compiles; an exception ends it.
  std::function<void()> betweenPhases = {};
};

/// Replaces the console of the process.
void setConsole(Console console);
/// A copy of the current one.
Console console();

}  // namespace sluice
