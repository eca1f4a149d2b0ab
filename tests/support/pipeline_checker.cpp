#include "tests/support/pipeline_checker.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/core.h>

namespace sluice::schedule {
namespace {

using Key = std::tuple<int, std::int32_t, std::int32_t>;  // F 0, B or BI 1, W 2; stage; micro-batch

int rowOfWork(WorkKind kind) {
  return kind == WorkKind::Forward ? 0 : kind == WorkKind::BackwardWeight ? 2 : 1;
}

class Checker {
 public:
  Checker(const PipelineProblem& problem, const PipelineSchedule& schedule)
      : p_(problem), s_(schedule), stages_(problem.deviceOfStage.size()) {
    split_ = p_.training &&
             (s_.kind == PipelineKind::ZeroBubble || s_.kind == PipelineKind::ZeroBubbleH1);
  }

  std::string run() {
    for (const auto check : {&Checker::pieces,
                             &Checker::ascending,
                             &Checker::times,
                             &Checker::measures,
                             &Checker::memory}) {
      std::string fault = (this->*check)();
      if (!fault.empty()) {
        return fault;
      }
    }
    return "";
  }

 private:
  std::int32_t slot(std::size_t stage) const {
    return p_.slotOfStage.empty() ? static_cast<std::int32_t>(stage) : p_.slotOfStage[stage];
  }
  StageCost cost(std::int32_t stage) const {
    return p_.costs.empty() ? StageCost{} : p_.costs[static_cast<std::size_t>(stage)];
  }
  StageBytes bytes(std::int32_t stage) const {
    return p_.bytes.empty() ? StageBytes{} : p_.bytes[static_cast<std::size_t>(stage)];
  }
  std::int64_t duration(const Work& w) const {
    const StageCost c = cost(w.stage);
    const std::int64_t both = c.backwardInput + c.backwardWeight;
    const std::int64_t input = split_ ? c.backwardInput : both;
    return w.kind == WorkKind::Forward          ? c.forward
           : w.kind == WorkKind::BackwardWeight ? c.backwardWeight
                                                : input;
  }

  std::string pieces() {
    const std::size_t kinds = split_ ? 3 : p_.training ? 2 : 1;
    for (std::size_t d = 0; d < s_.devices.size(); ++d) {
      for (const Work& w : s_.devices[d]) {
        if (p_.deviceOfStage.at(static_cast<std::size_t>(w.stage)) != static_cast<int>(d)) {
          return fmt::format("stage {} runs on device {}", w.stage, d);
        }
        if ((w.kind == WorkKind::Backward) == split_ && rowOfWork(w.kind) == 1) {
          return "a backward piece of the wrong kind";
        }
        if (!work_.emplace(Key{rowOfWork(w.kind), w.stage, w.microBatch}, w).second) {
          return fmt::format("stage {} runs micro-batch {} twice", w.stage, w.microBatch);
        }
        if (w.microBatch < 0 || w.microBatch >= p_.microBatches) {
          return "no such micro-batch";
        }
        lastEnd_.resize(static_cast<std::size_t>(p_.microBatches), 0);
        std::int64_t& last = lastEnd_[static_cast<std::size_t>(w.microBatch)];
        last = std::max(last, w.end);
      }
    }
    const std::size_t expected = kinds * stages_ * static_cast<std::size_t>(p_.microBatches);
    return work_.size() == expected ? "" : fmt::format("{} pieces of {}", work_.size(), expected);
  }

  std::string ascending() {
    for (const auto& device : s_.devices) {
      std::map<std::pair<WorkKind, std::int32_t>, std::int32_t> next;
      for (const Work& w : device) {
        if (next[{w.kind, w.stage}]++ != w.microBatch) {
          return fmt::format("stage {} takes micro-batch {} out of turn", w.stage, w.microBatch);
        }
      }
    }
    return "";
  }

  std::int64_t ready(const Work& w) const {
    // Sequential lets a micro-batch in when the one before is through.
    const bool held = s_.kind == PipelineKind::Sequential && w.microBatch > 0;
    std::int64_t time = held ? lastEnd_[static_cast<std::size_t>(w.microBatch) - 1] : 0;
    const auto after = [&](int row, std::size_t stage) {
      const Work& before = work_.at({row, static_cast<std::int32_t>(stage), w.microBatch});
      const bool same =
          p_.deviceOfStage[stage] == p_.deviceOfStage[static_cast<std::size_t>(w.stage)];
      time = std::max(time, before.end + (same ? 0 : p_.transferCost));
    };
    const int row = rowOfWork(w.kind);
    if (row > 0) {
      after(row == 2 ? 1 : 0, static_cast<std::size_t>(w.stage));
    }
    const std::int32_t wanted = slot(static_cast<std::size_t>(w.stage)) + (row == 0 ? -1 : 1);
    for (std::size_t stage = 0; row < 2 && stage < stages_; ++stage) {
      if (slot(stage) == wanted) {
        after(row, stage);
      }
    }
    return time;
  }

  /// Together with the order of ends this is a re-simulation: a piece starts exactly when both its
  /// device and its predecessors are done.
  std::string times() {
    for (const auto& device : s_.devices) {
      std::int64_t free = 0;
      for (const Work& w : device) {
        const std::int64_t start = std::max(free, ready(w));
        if (w.start != start || w.end != start + duration(w)) {
          return fmt::format("stage {} of micro-batch {} runs in [{}, {}), expected [{}, {})",
                             w.stage,
                             w.microBatch,
                             w.start,
                             w.end,
                             start,
                             start + duration(w));
        }
        free = w.end;
      }
    }
    return "";
  }

  std::string measures() {
    std::int64_t makespan = 0;
    for (const auto& [key, w] : work_) {
      makespan = std::max(makespan, w.end);
    }
    if (s_.makespan != makespan || s_.bound > makespan) {
      return fmt::format("makespan {} and bound {} of {}", s_.makespan, s_.bound, makespan);
    }
    for (std::size_t d = 0; d < s_.devices.size(); ++d) {
      std::int64_t busy = 0;
      for (const Work& w : s_.devices[d]) {
        busy += w.end - w.start;
      }
      const std::int64_t bubble = s_.devices[d].empty() ? 0 : makespan - busy;
      if (s_.busy.at(d) != busy || s_.bubble.at(d) != bubble) {
        return fmt::format("busy {} and bubble {} of device {}", s_.busy[d], s_.bubble[d], d);
      }
    }
    return "";
  }

  /// Bytes (or pieces of `stage`) held at a time, from the intervals of all pieces.
  std::int64_t heldAt(std::int64_t time, std::size_t device) const {
    std::int64_t held = 0;
    for (const Work& w : s_.devices[device]) {
      const Work& release = work_.at({p_.training ? 1 : 0, w.stage, w.microBatch});
      if (w.kind == WorkKind::Forward && w.start <= time && time < release.end) {
        held += bytes(w.stage).activations;
      }
      if (w.kind == WorkKind::BackwardInput && w.start <= time &&
          time < work_.at({2, w.stage, w.microBatch}).end) {
        held += bytes(w.stage).weightGradInputs;
      }
    }
    return held;
  }

  std::int32_t depthOf(std::int32_t stage, int firstRow, int lastRow) const {
    std::int32_t most = 0;
    for (std::int32_t m = 0; m < p_.microBatches; ++m) {
      const std::int64_t time = work_.at({firstRow, stage, m}).start;
      std::int32_t now = 0;
      for (std::int32_t other = 0; other < p_.microBatches; ++other) {
        now += work_.at({firstRow, stage, other}).start <= time &&
                       time < work_.at({lastRow, stage, other}).end
                   ? 1
                   : 0;
      }
      most = std::max(most, now);
    }
    return most;
  }

  std::string memory() {
    for (std::int32_t stage = 0; stage < static_cast<std::int32_t>(stages_); ++stage) {
      const StageCost c = cost(stage);
      if (c.forward == 0 || c.backwardInput == 0 || c.backwardWeight == 0) {
        return "";
      }
    }
    for (std::size_t d = 0; d < s_.devices.size(); ++d) {
      std::int64_t peak = 0;
      for (const Work& w : s_.devices[d]) {
        peak = std::max(peak, heldAt(w.start, d));
      }
      if (s_.peakBytes.at(d) != peak || (!p_.byteCap.empty() && peak > p_.byteCap[d])) {
        return fmt::format("peak {} of device {}, expected {}", s_.peakBytes[d], d, peak);
      }
    }
    const int last = split_ ? 2 : p_.training ? 1 : 0;
    for (std::size_t i = 0; i < stages_; ++i) {
      const auto stage = static_cast<std::int32_t>(i);
      if (s_.stashDepth.at(i) != depthOf(stage, 0, last) ||
          s_.activationDepth.at(i) != depthOf(stage, 0, std::min(last, 1)) ||
          s_.weightGradDepth.at(i) != (split_ ? depthOf(stage, 1, 2) : 0)) {
        return fmt::format("depths of stage {}", stage);
      }
    }
    return "";
  }

  const PipelineProblem& p_;
  const PipelineSchedule& s_;
  std::size_t stages_;
  bool split_ = false;
  std::vector<std::int64_t> lastEnd_;  // by micro-batch
  std::map<Key, Work> work_;
};

}  // namespace

std::string faultOf(const PipelineProblem& problem, const PipelineSchedule& schedule) {
  return Checker(problem, schedule).run();
}

}  // namespace sluice::schedule
