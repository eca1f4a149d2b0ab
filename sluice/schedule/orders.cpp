#include "sluice/schedule/orders.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/schedule/clock.h"

namespace sluice::schedule {
namespace {

/// Sorts the pieces of each device by `placeOf`, earlier steps first where places are equal.
/// Places must grow along dependencies, or be equal for the two passes of one step.
template <class PlaceOf>
Orders ordersBy(const CheckedProblem& checked, PlaceOf placeOf) {
  struct Placed {
    std::int64_t place;
    std::int32_t step;
    Piece piece;
  };
  Orders orders(static_cast<std::size_t>(checked.numDevices()));
  std::vector<Placed> placed;
  for (std::int32_t d = 0; d < checked.numDevices(); ++d) {
    placed.clear();
    for (const std::int32_t stage : checked.stagesOfDevice(d)) {
      for (const WorkKind kind : checked.kinds()) {
        if (kind == WorkKind::BackwardWeight) {
          continue;
        }
        for (std::int32_t m = 0; m < checked.microBatches(); ++m) {
          const Piece piece{kind, stage, m};
          placed.push_back({placeOf(piece), checked.stepOf(kind, stage), piece});
        }
      }
    }
    std::ranges::sort(placed, [](const Placed& a, const Placed& b) {
      return a.place != b.place ? a.place < b.place : a.step < b.step;
    });
    auto& order = orders[static_cast<std::size_t>(d)];
    order.reserve(placed.size());
    for (const Placed& p : placed) {
      order.push_back(p.piece);
    }
  }
  return orders;
}

/// The places of micro-batch 0 when one enters per `period` and no device has two pieces at one
/// place: every piece takes the first place behind its predecessors that is free on its device in
/// all periods. A stack without repeated devices gets its steps.
std::vector<std::int64_t> placesInPeriod(const CheckedProblem& checked, std::int64_t period) {
  std::vector<std::int64_t> places(checked.numPieces(), 0);
  std::vector<bool> taken(static_cast<std::size_t>(checked.numDevices() * period), false);
  const auto choose = [&](WorkKind kind, std::int32_t stage) {
    std::int64_t place = 0;
    checked.eachBefore(kind, stage, [&](WorkKind otherKind, std::int32_t other) {
      place = std::max(place, places[checked.id(otherKind, other, 0)] + 1);
    });
    const auto slotAt = [&](std::int64_t at) {
      return static_cast<std::size_t>(checked.device(stage) * period + at % period);
    };
    while (taken[slotAt(place)]) {
      ++place;
    }
    taken[slotAt(place)] = true;
    places[checked.id(kind, stage, 0)] = place;
  };
  for (std::int32_t stage = 0; stage < checked.numStages(); ++stage) {
    choose(WorkKind::Forward, stage);
  }
  for (std::int32_t stage = checked.numStages() - 1; checked.training() && stage >= 0; --stage) {
    choose(checked.kinds()[1], stage);
  }
  return places;
}

}  // namespace

Orders lockStepOrders(PipelineKind kind, const CheckedProblem& checked) {
  const Clock clock = clockOf(kind, checked);
  return ordersBy(checked, [&](const Piece& piece) { return clock.cycle(checked, piece); });
}

Orders gpipeOrders(const CheckedProblem& checked) {
  // Backward cycles start when the last forward cycle is over.
  const std::int64_t forwardCycles = checked.microBatches() - 1;
  return ordersBy(checked, [&](const Piece& piece) {
    return piece.microBatch + checked.stepOf(piece.kind, piece.stage) +
           (piece.kind == WorkKind::Forward ? 0 : forwardCycles);
  });
}

Orders oneForwardOneBackwardOrders(const CheckedProblem& checked) {
  const std::int64_t passes = checked.training() ? 2 : 1;
  const std::int64_t period = checked.mostStagesOfADevice() * passes;
  const std::vector<std::int64_t> places = placesInPeriod(checked, period);
  return ordersBy(checked, [&](const Piece& piece) {
    return period * piece.microBatch + places[checked.id(piece.kind, piece.stage, 0)];
  });
}

}  // namespace sluice::schedule
