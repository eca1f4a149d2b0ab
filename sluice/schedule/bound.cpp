// A lower bound of the makespan. heads[k][s] is the earliest start of a piece (k, s, m): all pieces
// before it in the same micro-batch take that long. tails[k][s] is the time that the pieces after
// it take. A device cannot start before the smallest head of its forward pieces, then it does all
// its work, and after its last piece the tail of that piece is still to come.
#include <algorithm>
#include <array>

#include "sluice/schedule/layout.h"

namespace sluice::schedule {
namespace {

using Table = std::array<std::vector<std::int64_t>, 3>;

Table tableFor(const Layout& layout) {
  Table table;
  table.fill(std::vector<std::int64_t>(static_cast<std::size_t>(layout.numStages()), 0));
  return table;
}

Table headsOf(const Layout& layout) {
  Table heads = tableFor(layout);
  const auto fill = [&](WorkKind kind, std::int32_t stage) {
    std::int64_t& head = heads[rowOf(kind)][static_cast<std::size_t>(stage)];
    layout.eachBefore(kind, stage, [&](WorkKind otherKind, std::int32_t other) {
      head = std::max(head,
                      heads[rowOf(otherKind)][static_cast<std::size_t>(other)] +
                          layout.duration(otherKind, other) + layout.transfer(other, stage));
    });
  };
  for (std::int32_t stage = 0; stage < layout.numStages(); ++stage) {
    fill(WorkKind::Forward, stage);
  }
  for (std::size_t k = 1; k < layout.kinds().size(); ++k) {
    for (std::int32_t stage = layout.numStages() - 1; stage >= 0; --stage) {
      fill(layout.kinds()[k], stage);
    }
  }
  return heads;
}

Table tailsOf(const Layout& layout) {
  Table tails = tableFor(layout);
  const auto fill = [&](WorkKind kind, std::int32_t stage) {
    std::int64_t& tail = tails[rowOf(kind)][static_cast<std::size_t>(stage)];
    layout.eachAfter(kind, stage, [&](WorkKind otherKind, std::int32_t other) {
      tail = std::max(tail,
                      tails[rowOf(otherKind)][static_cast<std::size_t>(other)] +
                          layout.duration(otherKind, other) + layout.transfer(stage, other));
    });
  };
  for (std::size_t k = layout.kinds().size() - 1; k >= 1; --k) {
    for (std::int32_t stage = 0; stage < layout.numStages(); ++stage) {
      fill(layout.kinds()[k], stage);
    }
  }
  for (std::int32_t stage = layout.numStages() - 1; stage >= 0; --stage) {
    fill(WorkKind::Forward, stage);
  }
  return tails;
}

}  // namespace

std::int64_t lowerBound(const PipelineProblem& problem, bool splitBackward) {
  const Layout layout(problem, splitBackward);
  const Table heads = headsOf(layout);
  const Table tails = tailsOf(layout);
  const WorkKind last = layout.kinds().back();
  std::int64_t bound = 0;
  for (std::int32_t d = 0; d < layout.numDevices(); ++d) {
    if (layout.stagesOfDevice(d).empty()) {
      continue;
    }
    const auto first = static_cast<std::size_t>(layout.stagesOfDevice(d).front());
    std::int64_t start = heads[0][first];
    std::int64_t tail = tails[rowOf(last)][first];
    std::int64_t work = 0;
    for (const std::int32_t stage : layout.stagesOfDevice(d)) {
      const auto s = static_cast<std::size_t>(stage);
      start = std::min(start, heads[0][s]);
      tail = std::min(tail, tails[rowOf(last)][s]);
      for (const WorkKind kind : layout.kinds()) {
        work += layout.duration(kind, stage);
        bound = std::max(
            bound, heads[rowOf(kind)][s] + layout.duration(kind, stage) + tails[rowOf(kind)][s]);
      }
    }
    bound = std::max(bound, start + work * layout.microBatches() + tail);
  }
  return bound;
}

}  // namespace sluice::schedule
