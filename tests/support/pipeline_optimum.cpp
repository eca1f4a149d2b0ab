// Branch and bound over the order in which pieces start. Any ready piece of any device may be next
// if it starts no earlier than the piece before it, so the search covers every schedule without
// needless waiting.
#include <algorithm>
#include <array>
#include <set>

#include "tests/support/pipeline_checker.h"

namespace sluice::schedule {
namespace {

class Search {
 public:
  Search(const PipelineProblem& problem, bool split, std::int64_t known, std::int64_t mostNodes)
      : p_(problem),
        kinds_(!p_.training ? 1
               : split      ? 3
                            : 2),
        stages_(p_.deviceOfStage.size()),
        slots_(p_.slotOfStage),
        best_(known),
        nodesLeft_(mostNodes) {
    for (std::size_t s = 0; s < stages_; ++s) {
      if (p_.slotOfStage.empty()) {
        slots_.push_back(static_cast<std::int32_t>(s));
      }
      const StageCost c = p_.costs.empty() ? StageCost{} : p_.costs[s];
      cost_[0].push_back(c.forward);
      cost_[1].push_back(split ? c.backwardInput : c.backwardInput + c.backwardWeight);
      cost_[2].push_back(c.backwardWeight);
    }
    for (std::size_t k = 0; k < 3; ++k) {
      tail_[k].assign(stages_, 0);
      ends_[k].assign(stages_, {});
    }
    free_.assign(static_cast<std::size_t>(std::ranges::max(p_.deviceOfStage)) + 1, 0);
    left_.assign(free_.size(), 0);
    held_.assign(free_.size(), 0);
    for (std::size_t s = 0; s < stages_; ++s) {
      for (std::size_t k = 0; k < kinds_; ++k) {
        left_[device(s)] += cost_[k][s] * p_.microBatches;
      }
    }
    findTails();
  }

  std::int64_t run() {
    extend(0);
    return nodesLeft_ < 0 ? -1 : best_;
  }

 private:
  std::size_t device(std::size_t stage) const {
    return static_cast<std::size_t>(p_.deviceOfStage[stage]);
  }
  std::int64_t hop(std::size_t a, std::size_t b) const {
    return device(a) == device(b) ? 0 : p_.transferCost;
  }
  StageBytes bytes(std::size_t stage) const {
    return p_.bytes.empty() ? StageBytes{} : p_.bytes[stage];
  }

  /// Time from the end of a piece to the end of all that follows it in its micro-batch.
  std::int64_t longestAfter(std::size_t k, std::size_t s) const {
    std::int64_t longest = 0;
    const auto follow = [&](std::size_t k2, std::size_t s2) {
      longest = std::max(longest, hop(s, s2) + cost_[k2][s2] + tail_[k2][s2]);
    };
    if (k + 1 < kinds_) {
      follow(k + 1, s);
    }
    for (std::size_t other = 0; k < 2 && other < stages_; ++other) {
      if (slots_[other] == slots_[s] + (k == 0 ? 1 : -1)) {
        follow(k, other);
      }
    }
    return longest;
  }

  /// Repeated until nothing can change any more: a path has at most two pieces per stage and one.
  void findTails() {
    for (std::size_t round = 0; round < 2 * stages_ + 2; ++round) {
      for (std::size_t k = 0; k < kinds_; ++k) {
        for (std::size_t s = 0; s < stages_; ++s) {
          tail_[k][s] = longestAfter(k, s);
        }
      }
    }
  }

  /// When the next piece of a stage and kind has all its inputs, -1 if not yet known.
  std::int64_t ready(std::size_t k, std::size_t s) const {
    const std::size_t m = ends_[k][s].size();
    if (m == static_cast<std::size_t>(p_.microBatches)) {
      return -1;
    }
    std::int64_t time = 0;
    const auto after = [&](std::size_t k2, std::size_t s2) {
      if (time >= 0) {
        time = ends_[k2][s2].size() > m ? std::max(time, ends_[k2][s2][m] + hop(s2, s)) : -1;
      }
    };
    if (k > 0) {
      after(k - 1, s);
    }
    for (std::size_t other = 0; k < 2 && other < stages_; ++other) {
      if (slots_[other] == slots_[s] + (k == 0 ? -1 : 1)) {
        after(k, other);
      }
    }
    return time;
  }

  /// Bytes taken at the start and given back at the end; a device is serial, so both can be done
  /// when a piece is placed as long as the peak between them is looked at.
  std::int64_t taken(std::size_t k, std::size_t s) const {
    return k == 0 ? bytes(s).activations : k == 1 && kinds_ == 3 ? bytes(s).weightGradInputs : 0;
  }
  std::int64_t given(std::size_t k, std::size_t s) const {
    if (k == 2) {
      return bytes(s).weightGradInputs;
    }
    return k == std::min<std::size_t>(1, kinds_ - 1) ? bytes(s).activations : 0;
  }

  bool hopeless(std::int64_t last) const {
    for (std::size_t d = 0; d < free_.size(); ++d) {
      if (left_[d] > 0 && std::max(free_[d], last) + left_[d] >= best_) {
        return true;
      }
    }
    for (std::size_t k = 0; k < kinds_; ++k) {
      for (std::size_t s = 0; s < stages_; ++s) {
        const std::int64_t time = ready(k, s);
        const auto count = p_.microBatches - static_cast<std::int64_t>(ends_[k][s].size());
        if (time >= 0 &&
            std::max({time, free_[device(s)], last}) + cost_[k][s] * count + tail_[k][s] >= best_) {
          return true;
        }
      }
    }
    return false;
  }

  bool seen(std::int64_t last) {
    std::vector<std::int64_t> state{last};
    state.insert(state.end(), free_.begin(), free_.end());
    for (std::size_t k = 0; k < kinds_; ++k) {
      for (std::size_t s = 0; s < stages_; ++s) {
        state.push_back(static_cast<std::int64_t>(ends_[k][s].size()));
        for (const std::int64_t end : ends_[k][s]) {
          // Ends in the past of the last start are all alike for what can follow.
          state.push_back(std::max(end + p_.transferCost, last));
        }
      }
    }
    return !seen_.insert(std::move(state)).second;
  }

  void extend(std::int64_t last) {
    if (--nodesLeft_ < 0 || hopeless(last) || seen(last)) {
      return;
    }
    bool done = true;
    for (std::size_t k = kinds_; k-- > 0;) {
      for (std::size_t s = stages_; s-- > 0;) {
        done = done && ends_[k][s].size() == static_cast<std::size_t>(p_.microBatches);
        const std::int64_t time = ready(k, s);
        const std::size_t d = device(s);
        const std::int64_t start = std::max(free_[d], time);
        const bool fits = p_.byteCap.empty() || held_[d] + taken(k, s) <= p_.byteCap[d];
        if (time >= 0 && start >= last && fits) {
          place(k, s, start);
        }
      }
    }
    if (done) {
      best_ = std::min(best_, std::ranges::max(free_));
    }
  }

  void place(std::size_t k, std::size_t s, std::int64_t start) {
    const std::size_t d = device(s);
    const std::int64_t freeBefore = free_[d];
    const std::int64_t change = taken(k, s) - given(k, s);
    free_[d] = start + cost_[k][s];
    ends_[k][s].push_back(free_[d]);
    left_[d] -= cost_[k][s];
    held_[d] += change;
    extend(start);
    held_[d] -= change;
    left_[d] += cost_[k][s];
    ends_[k][s].pop_back();
    free_[d] = freeBefore;
  }

  const PipelineProblem& p_;
  std::size_t kinds_;
  std::size_t stages_;
  std::vector<std::int32_t> slots_;
  std::int64_t best_;
  std::int64_t nodesLeft_;
  std::array<std::vector<std::int64_t>, 3> cost_;
  std::array<std::vector<std::int64_t>, 3> tail_;
  std::array<std::vector<std::vector<std::int64_t>>, 3> ends_;
  std::vector<std::int64_t> free_;
  std::vector<std::int64_t> left_;
  std::vector<std::int64_t> held_;
  std::set<std::vector<std::int64_t>> seen_;
};

}  // namespace

std::int64_t optimalMakespan(const PipelineProblem& problem,
                             bool splitBackward,
                             std::int64_t known,
                             std::int64_t mostNodes) {
  return Search(problem, splitBackward, known, mostNodes).run();
}

}  // namespace sluice::schedule
