// Lines between a rank and the launcher. `sluice launch-rank` puts "rank 2: " before each line that
// its program prints, and notes of its own into the same stream: that the program has begun, that
// it lives, and its exit code. The launcher takes the notes out again.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace sluice::cli {

/// Cuts a stream of pieces into lines and replaces each of them.
class LineFilter {
 public:
  using Replace = std::function<std::string(std::string line)>;
  explicit LineFilter(Replace replace) : replace_(std::move(replace)) {}

  /// Adds a piece; returns the lines that it completes.
  std::string add(std::string_view text) {
    open_ += text;
    std::string lines;
    std::size_t begin = 0;
    for (std::size_t end = open_.find('\n'); end != std::string::npos;
         end = open_.find('\n', begin)) {
      lines += replace_(open_.substr(begin, end + 1 - begin));
      begin = end + 1;
    }
    open_.erase(0, begin);
    return lines;
  }
  /// What is left after the last line, as a line.
  std::string rest() {
    return open_.empty() ? std::string() : replace_(std::exchange(open_, "") + "\n");
  }

 private:
  Replace replace_;
  std::string open_;
};

/// In place of an exit code: the rank is there, and its program begins.
inline constexpr int kBegins = -1;
/// In place of an exit code: the program runs and is not stopped.
inline constexpr int kLives = -2;

/// What a rank says of its program. No program prints these characters.
inline std::string exitNote(int rank, int code) {
  return fmt::format("\x01sluice {} exit {}\n", rank, code);
}

/// Whether a line is such a note; then sets rank and code.
inline bool isExitNote(const std::string& line, int& rank, int& code) {
  return std::sscanf(line.c_str(), "\x01sluice %d exit %d", &rank, &code) == 2;  // NOLINT
}

}  // namespace sluice::cli
