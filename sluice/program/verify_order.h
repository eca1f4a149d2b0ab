// Which tasks are finished whenever another task begins, derived only from lanes and waits. If a
// lane waits for another lane, the order knows how far the other lane has come. This answers nearly
// every question, because lowering waits for exactly the tasks whose bytes it touches. An order
// that follows only through several lanes is searched for. Private to the program module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

/// The task that brings its lane's count of finished tasks to `count`. Lane -1 stands for the load.
struct Access {
  std::int32_t lane = -1;
  std::int64_t count = 0;
};

class LaneOrder {
 public:
  explicit LaneOrder(const Program& program);

  /// The task that a wait in round `round` names; a count of 0 if there was no such round.
  Access wanted(const Wait& wait, std::int32_t round) const {
    const std::int64_t since = round - wait.roundsBack;
    const std::int64_t perRound = perRound_[wait.lane];
    return {wait.lane, since < 0 ? 0 : since * perRound + wait.task + 1};
  }

  /// The next task of `lane` waits for `other`.
  void add(std::int32_t lane, const Access& other) {
    Edge& e = edge(lane, other.lane);
    e.known = std::max(e.known, other.count);
  }
  /// Whether `earlier` is finished when `later`, the last task of its lane so far, begins.
  bool isBefore(const Access& earlier, const Access& later) {
    return earlier.lane < 0 || earlier.lane == later.lane ||
           edge(later.lane, earlier.lane).known >= earlier.count || isFarBefore(earlier, later);
  }

 private:
  /// What one lane knows about another.
  struct Edge {
    std::int32_t lane = 0;
    std::int64_t known = 0;
  };
  /// From its task number `at` on, a lane knows of `known` finished tasks of another.
  struct Step {
    std::int64_t at = 0;
    std::int64_t known = 0;
  };
  /// All steps of a lane, for searches; made when the first search needs them.
  struct History {
    std::int64_t tasks = 0;
    Table<std::vector<Step>> steps;  // by edge; both numbers rise
  };

  Edge& edge(std::int32_t lane, std::int32_t other) {
    std::vector<Edge>& edges = edges_[lane];
    const auto at = std::ranges::lower_bound(edges, other, {}, &Edge::lane);
    return at != edges.end() && at->lane == other ? *at : none_;
  }
  bool isFarBefore(const Access& earlier, const Access& later);
  bool search(const Access& earlier, const Access& later);
  void extend(std::size_t lane, std::int64_t tasks);
  std::int64_t knownAt(std::size_t lane, std::size_t edge, std::int64_t count);

  const Program& p_;
  Table<std::int64_t> perRound_;    // by lane
  Table<std::vector<Edge>> edges_;  // by lane, sorted by the other lane: from its waits
  Table<std::vector<Edge>> found_;  // by lane: from searches
  Table<History> histories_;        // by lane
  Table<std::int64_t> reached_;     // by lane: how far a search has come
  std::vector<std::int32_t> front_;
  Edge none_;  // for lanes that never wait for each other
};

}  // namespace sluice::program
