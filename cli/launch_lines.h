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

/// Cuts a stream of pieces into lines and replaces each of them. A line that does not end is cut
/// into lines of about `longest`, so that it takes neither more memory nor more time than others.
class LineFilter {
 public:
  using Replace = std::function<std::string(std::string line)>;
  static constexpr std::size_t kLongest = std::size_t{1} << 16;
  explicit LineFilter(Replace replace, std::size_t longest = kLongest)
      : replace_(std::move(replace)), longest_(longest) {}

  /// Adds a piece; returns the lines that it completes.
  std::string add(std::string_view text) {
    std::string lines;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      open_ += text.substr(0, end + 1);
      lines += replace_(std::exchange(open_, ""));
      text.remove_prefix(end + 1);
    }
    open_ += text;
    return open_.size() < longest_ ? lines : lines + rest();
  }
  /// What is left after the last line, as a line.
  std::string rest() {
    return open_.empty() ? std::string() : replace_(std::exchange(open_, "") + "\n");
  }

 private:
  Replace replace_;
  std::size_t longest_;
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
