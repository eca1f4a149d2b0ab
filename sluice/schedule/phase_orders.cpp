#include "sluice/schedule/phase_orders.h"

#include <algorithm>
#include <tuple>

#include "sluice/schedule/layout.h"
#include "sluice/schedule/run.h"

namespace sluice::schedule {

PipelineSchedule schedulePhases(const PipelineProblem& problem,
                                std::span<const std::int32_t> phaseOfStage,
                                bool separateBackward) {
  const Layout layout(problem, false);
  const std::int32_t last = phaseOfStage.back();
  // The phase of a piece: those of the backward pass come behind all of the forward pass.
  const auto phaseOf = [&](const Piece& piece) {
    const std::int32_t phase = phaseOfStage[static_cast<std::size_t>(piece.stage)];
    const bool forward = piece.kind == WorkKind::Forward || (phase == last && !separateBackward);
    return forward ? phase : 2 * last + 1 - phase;
  };
  Orders orders(static_cast<std::size_t>(layout.numDevices()));
  for (std::int32_t d = 0; d < layout.numDevices(); ++d) {
    std::vector<Piece>& order = orders[static_cast<std::size_t>(d)];
    for (const std::int32_t stage : layout.stagesOfDevice(d)) {
      for (const WorkKind kind : layout.kinds()) {
        for (std::int32_t m = 0; m < layout.microBatches(); ++m) {
          order.push_back({kind, stage, m});
        }
      }
    }
    std::ranges::sort(order, {}, [&](const Piece& piece) {
      return std::tuple(phaseOf(piece), piece.microBatch, layout.stepOf(piece.kind, piece.stage));
    });
  }
  PipelineSchedule schedule = runOrders(layout, orders);
  schedule.kind = PipelineKind::Sequential;
  schedule.bound = lowerBound(problem, false);
  return schedule;
}

}  // namespace sluice::schedule
