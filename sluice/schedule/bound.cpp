// A lower bound of the makespan. heads[k][s] is the earliest start of a piece (k, s, m): all pieces
// before it in the same micro-batch take that long. tails[k][s] is the time that the pieces after
// it take. A device cannot start before the smallest head of its forward pieces, then it does all
// its work, and after its last piece the tail of that piece is still to come.
#include <algorithm>
#include <array>

#include "sluice/schedule/checked_problem.h"

namespace sluice::schedule {
namespace {

using Table = std::array<std::vector<std::int64_t>, 3>;

Table tableFor(const CheckedProblem& checked) {
  Table table;
  table.fill(std::vector<std::int64_t>(static_cast<std::size_t>(checked.numStages()), 0));
  return table;
}

Table headsOf(const CheckedProblem& checked) {
  Table heads = tableFor(checked);
  const auto fill = [&](WorkKind kind, std::int32_t stage) {
    std::int64_t& head = heads[rowOf(kind)][static_cast<std::size_t>(stage)];
    checked.eachBefore(kind, stage, [&](WorkKind otherKind, std::int32_t other) {
      head = std::max(head,
                      heads[rowOf(otherKind)][static_cast<std::size_t>(other)] +
                          checked.duration(otherKind, other) + checked.transfer(other, stage));
    });
  };
  for (std::int32_t stage = 0; stage < checked.numStages(); ++stage) {
    fill(WorkKind::Forward, stage);
  }
  for (std::size_t k = 1; k < checked.kinds().size(); ++k) {
    for (std::int32_t stage = checked.numStages() - 1; stage >= 0; --stage) {
      fill(checked.kinds()[k], stage);
    }
  }
  return heads;
}

Table tailsOf(const CheckedProblem& checked) {
  Table tails = tableFor(checked);
  const auto fill = [&](WorkKind kind, std::int32_t stage) {
    std::int64_t& tail = tails[rowOf(kind)][static_cast<std::size_t>(stage)];
    checked.eachAfter(kind, stage, [&](WorkKind otherKind, std::int32_t other) {
      tail = std::max(tail,
                      tails[rowOf(otherKind)][static_cast<std::size_t>(other)] +
                          checked.duration(otherKind, other) + checked.transfer(stage, other));
    });
  };
  for (std::size_t k = checked.kinds().size() - 1; k >= 1; --k) {
    for (std::int32_t stage = 0; stage < checked.numStages(); ++stage) {
      fill(checked.kinds()[k], stage);
    }
  }
  for (std::int32_t stage = checked.numStages() - 1; stage >= 0; --stage) {
    fill(WorkKind::Forward, stage);
  }
  return tails;
}

}  // namespace

std::int64_t lowerBound(const PipelineProblem& problem, bool splitBackward) {
  const CheckedProblem checked(problem, splitBackward);
  const Table heads = headsOf(checked);
  const Table tails = tailsOf(checked);
  const WorkKind last = checked.kinds().back();
  std::int64_t bound = 0;
  for (std::int32_t d = 0; d < checked.numDevices(); ++d) {
    if (checked.stagesOfDevice(d).empty()) {
      continue;
    }
    const auto first = static_cast<std::size_t>(checked.stagesOfDevice(d).front());
    std::int64_t start = heads[0][first];
    std::int64_t tail = tails[rowOf(last)][first];
    std::int64_t work = 0;
    for (const std::int32_t stage : checked.stagesOfDevice(d)) {
      const auto s = static_cast<std::size_t>(stage);
      start = std::min(start, heads[0][s]);
      tail = std::min(tail, tails[rowOf(last)][s]);
      for (const WorkKind kind : checked.kinds()) {
        work += checked.duration(kind, stage);
        bound = std::max(
            bound, heads[rowOf(kind)][s] + checked.duration(kind, stage) + tails[rowOf(kind)][s]);
      }
    }
    bound = std::max(bound, start + work * checked.microBatches() + tail);
  }
  return bound;
}

}  // namespace sluice::schedule
