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
  SLUICE_CHECK(!layout.split(), "rules order whole backward passes");
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
  // A micro-batch enters whenever the device with most stages can have finished another one.
  std::size_t most = 1;
  for (std::int32_t d = 0; d < layout.numDevices(); ++d) {
    most = std::max(most, layout.stagesOfDevice(d).size());
  }
  const std::int64_t period = static_cast<std::int64_t>(most * layout.kinds().size());
  return ordersBy(layout, [&](const Piece& piece) {
    return period * piece.microBatch + layout.stepOf(piece.kind, piece.stage);
  });
}

}  // namespace sluice::schedule
