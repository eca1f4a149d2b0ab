#include "sluice/schedule/orders.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/schedule/clock.h"

namespace sluice::schedule {
namespace {

/// Sorts the pieces of each device by `placeOf`, earlier steps first where places are equal.
/// Places must grow along dependencies, or be equal for the two passes of one step.
template <class PlaceOf>
Orders ordersBy(const Layout& layout, PlaceOf placeOf) {
  struct Placed {
    std::int64_t place;
    std::int32_t step;
    Piece piece;
  };
  Orders orders(static_cast<std::size_t>(layout.numDevices()));
  std::vector<Placed> placed;
  for (std::int32_t d = 0; d < layout.numDevices(); ++d) {
    placed.clear();
    for (const std::int32_t stage : layout.stagesOfDevice(d)) {
      for (const WorkKind kind : layout.kinds()) {
        if (kind == WorkKind::BackwardWeight) {
          continue;
        }
        for (std::int32_t m = 0; m < layout.microBatches(); ++m) {
          const Piece piece{kind, stage, m};
          placed.push_back({placeOf(piece), layout.stepOf(kind, stage), piece});
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
std::vector<std::int64_t> placesInPeriod(const Layout& layout, std::int64_t period) {
  std::vector<std::int64_t> places(layout.numPieces(), 0);
  std::vector<bool> taken(static_cast<std::size_t>(layout.numDevices() * period), false);
  const auto choose = [&](WorkKind kind, std::int32_t stage) {
    std::int64_t place = 0;
    layout.eachBefore(kind, stage, [&](WorkKind otherKind, std::int32_t other) {
      place = std::max(place, places[layout.id(otherKind, other, 0)] + 1);
    });
    const auto slotAt = [&](std::int64_t at) {
      return static_cast<std::size_t>(layout.device(stage) * period + at % period);
    };
    while (taken[slotAt(place)]) {
      ++place;
    }
    taken[slotAt(place)] = true;
    places[layout.id(kind, stage, 0)] = place;
  };
  for (std::int32_t stage = 0; stage < layout.numStages(); ++stage) {
    choose(WorkKind::Forward, stage);
  }
  for (std::int32_t stage = layout.numStages() - 1; layout.training() && stage >= 0; --stage) {
    choose(layout.kinds()[1], stage);
  }
  return places;
}

}  // namespace

Orders lockStepOrders(PipelineKind kind, const Layout& layout) {
  const Clock clock = clockOf(kind, layout);
  return ordersBy(layout, [&](const Piece& piece) { return clock.cycle(layout, piece); });
}

Orders gpipeOrders(const Layout& layout) {
  // Backward cycles start when the last forward cycle is over.
  const std::int64_t forwardCycles = layout.microBatches() - 1;
  return ordersBy(layout, [&](const Piece& piece) {
    return piece.microBatch + layout.stepOf(piece.kind, piece.stage) +
           (piece.kind == WorkKind::Forward ? 0 : forwardCycles);
  });
}

Orders oneForwardOneBackwardOrders(const Layout& layout) {
  const std::int64_t passes = layout.training() ? 2 : 1;
  const std::int64_t period = layout.mostStagesOfADevice() * passes;
  const std::vector<std::int64_t> places = placesInPeriod(layout, period);
  return ordersBy(layout, [&](const Piece& piece) {
    return period * piece.microBatch + places[layout.id(piece.kind, piece.stage, 0)];
  });
}

}  // namespace sluice::schedule
