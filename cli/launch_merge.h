// MergedLines: what several ranks say in the same words within a short time appears once, with the
// numbers of these ranks. Lines of one rank stay in their order.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace sluice::cli {

/// "rank 2", "ranks 0 to 3, 5"
inline std::string rankNames(const std::set<int>& ranks) {
  std::string text;
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first;
    while (std::next(last) != ranks.end() && *std::next(last) == *last + 1) {
      ++last;
    }
    text += text.empty() ? "" : ", ";
    text += *first == *last ? fmt::format("{}", *first) : fmt::format("{} to {}", *first, *last);
    first = std::next(last);
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

class MergedLines {
 public:
  using Clock = std::chrono::steady_clock;

  /// A line waits at most so long for other ranks to say the same.
  MergedLines(std::size_t ranks, Clock::duration patience) : ranks_(ranks), patience_(patience) {}

  /// Adds a line, "rank 2: text" or one that no rank has said.
  void add(std::string line, Clock::time_point now) {
    int rank = 0;
    int length = 0;
    if (std::sscanf(line.c_str(), "rank %d: %n", &rank, &length) != 1 || length == 0) {  // NOLINT
      waiting_.push_back({{}, std::move(line), now});
      return;
    }
    line.erase(0, static_cast<std::size_t>(length));
    // Behind the last line of this rank.
    auto found = waiting_.end();
    for (auto entry = waiting_.begin(); entry != waiting_.end(); ++entry) {
      if (entry->ranks.contains(rank)) {
        found = waiting_.end();
      } else if (found == waiting_.end() && !entry->ranks.empty() && entry->text == line) {
        found = entry;
      }
    }
    if (found == waiting_.end()) {
      waiting_.push_back({{rank}, std::move(line), now});
    } else {
      found->ranks.insert(rank);
    }
  }

  /// The lines that are to appear now.
  std::string due(Clock::time_point now) {
    std::string text;
    while (!waiting_.empty() &&
           (waiting_.front().ranks.empty() || waiting_.front().ranks.size() == ranks_ ||
            now - waiting_.front().since >= patience_)) {
      text += takeFirst();
    }
    return text;
  }
  std::string rest() {
    std::string text;
    while (!waiting_.empty()) {
      text += takeFirst();
    }
    return text;
  }

 private:
  struct Entry {
    std::set<int> ranks;  // none: no rank has said it
    std::string text;
    Clock::time_point since;
  };
  std::string takeFirst() {
    const Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    return entry.ranks.empty() ? entry.text
                               : fmt::format("{}: {}", rankNames(entry.ranks), entry.text);
  }

  std::size_t ranks_;
  Clock::duration patience_;
  std::deque<Entry> waiting_;
};

}  // namespace sluice::cli
