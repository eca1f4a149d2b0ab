// RankLines: the output of `mpirun --tag-output`, with "[1,2]<stdout>:" at the begin of a line
// turned into "rank 2: ". The process that starts a rank's program (`sluice launch-rank`) writes
// the program's exit code into the same stream; it is taken out of it here.
#pragma once

#include <charconv>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace sluice::cli {

/// What `launch-rank` writes when the program has ended. No program prints these characters.
inline std::string exitNote(int code) {
  return fmt::format("\x01sluice exit {}\x02\n", code);
}

class RankLines {
 public:
  using OnExit = std::function<void(int rank, int code)>;
  explicit RankLines(OnExit onExit = nullptr) : onExit_(std::move(onExit)) {}

  /// Adds a piece of output; returns the lines that it completes.
  std::string add(std::string_view text) {
    open_ += text;
    std::string lines;
    for (std::size_t end = open_.find('\n'); end != std::string::npos; end = open_.find('\n')) {
      lines += renamed(open_.substr(0, end + 1));
      open_.erase(0, end + 1);
    }
    return lines;
  }
  /// What is left after the last line.
  std::string rest() { return renamed(std::exchange(open_, "")); }

 private:
  std::string renamed(std::string line) const {
    const std::size_t comma = line.find(',');
    const std::size_t close = line.find("]<std");
    const std::size_t end = line.find(">:");
    const bool tagged = line.starts_with('[') && comma != std::string::npos &&
                        close != std::string::npos && end != std::string::npos && comma < close &&
                        close < end && line.find_first_not_of("0123456789,", 1) == close;
    if (!tagged) {
      return line;
    }
    const std::string rank = line.substr(comma + 1, close - comma - 1);
    std::string text = line.substr(end + 2);
    constexpr std::string_view kBegin = "\x01sluice exit ";
    if (const std::size_t note = text.find(kBegin); note != std::string::npos) {
      int code = 0;
      const char* const number = text.data() + note + kBegin.size();
      std::from_chars(number, text.data() + text.size(), code);
      if (onExit_) {
        onExit_(std::stoi(rank), code);
      }
      text.erase(note);
      if (text.empty()) {
        return "";
      }
      text += '\n';
    }
    return "rank " + rank + ": " + text;
  }

  OnExit onExit_;
  std::string open_;
};

}  // namespace sluice::cli
