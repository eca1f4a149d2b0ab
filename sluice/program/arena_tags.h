// What the bytes of one arena hold while a Program is executed symbolically: an ordered map of
// disjoint ranges, each with the tag of its last write and the accesses that a later one must be
// ordered with. Private to the program module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

/// What a write put there. A round of -1 is the load.
struct Tag {
  BufferId buffer;
  std::int32_t slot = 0;
  std::int32_t round = -1;
  std::int32_t microBatch = 0;
};

/// The task that brings its lane's count of finished tasks to `count`. A lane of -1 is the load.
struct Access {
  std::int32_t lane = -1;
  std::int64_t count = 0;
};

class ArenaTags {
 public:
  struct Range {
    std::size_t end = 0;
    Tag tag;
    Access writer;
    std::vector<Access> readers;  ///< since that write, the last of each lane
  };

  explicit ArenaTags(std::size_t bytes) {
    if (bytes > 0) {
      ranges_.emplace(0, Range{.end = bytes});
    }
  }

  /// Calls f(range) for everything stored that meets [begin, end), which is inside the arena.
  template <class F>
  void visit(std::size_t begin, std::size_t end, const F& f) const {
    for (auto at = find(begin); at != ranges_.end() && at->first < end; ++at) {
      f(at->second);
    }
  }

  void read(std::size_t begin, std::size_t end, Access access);
  /// What was there is forgotten.
  void write(std::size_t begin, std::size_t end, const Tag& tag, Access access);

 private:
  using Ranges = std::map<std::size_t, Range>;

  /// The range that holds this byte.
  Ranges::const_iterator find(std::size_t byte) const { return --ranges_.upper_bound(byte); }
  /// Makes ranges begin at `begin` and end at `end`; returns the first of them.
  Ranges::iterator cut(std::size_t begin, std::size_t end);

  Ranges ranges_;
};

}  // namespace sluice::program
