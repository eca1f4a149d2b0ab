// RankLines: the output of `mpirun --tag-output`, with "[1,2]<stdout>:" at the begin of a line
// turned into "rank 2: ".
#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

class RankLines {
 public:
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
  static std::string renamed(std::string line) {
    const std::size_t comma = line.find(',');
    const std::size_t close = line.find("]<std");
    const std::size_t end = line.find(">:");
    const bool tagged = line.starts_with('[') && comma != std::string::npos &&
                        close != std::string::npos && end != std::string::npos && comma < close &&
                        close < end && line.find_first_not_of("0123456789,", 1) == close;
    return tagged
               ? "rank " + line.substr(comma + 1, close - comma - 1) + ": " + line.substr(end + 2)
               : line;
  }

  std::string open_;
};

}  // namespace sluice::cli
