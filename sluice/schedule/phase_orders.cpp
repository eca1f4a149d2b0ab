#include "sluice/schedule/phase_orders.h"

#include <algorithm>
#include <tuple>

#include "sluice/schedule/checked_problem.h"
#include "sluice/schedule/run.h"

namespace sluice::schedule {

PipelineSchedule schedulePhases(const PipelineProblem& problem,
                                std::span<const std::int32_t> phaseOfStage,
                                bool separateBackward) {
  const CheckedProblem checked(problem, false);
  const std::int32_t last = phaseOfStage.back();
  // The phase of a piece: those of the backward pass come behind all of the forward pass.
  const auto phaseOf = [&](const Piece& piece) {
    const std::int32_t phase = phaseOfStage[static_cast<std::size_t>(piece.stage)];
    const bool forward = piece.kind == WorkKind::Forward || (phase == last && !separateBackward);
    return forward ? phase : 2 * last + 1 - phase;
  };
  Orders orders(static_cast<std::size_t>(checked.numDevices()));
  for (std::int32_t d = 0; d < checked.numDevices(); ++d) {
    std::vector<Piece>& order = orders[static_cast<std::size_t>(d)];
    for (const std::int32_t stage : checked.stagesOfDevice(d)) {
      for (const WorkKind kind : checked.kinds()) {
        for (std::int32_t m = 0; m < checked.microBatches(); ++m) {
          order.push_back({kind, stage, m});
        }
      }
    }
    // Both passes of the last phase take turns; otherwise each stage runs in one go.
    std::ranges::sort(order, {}, [&](const Piece& piece) {
      const std::int32_t phase = phaseOf(piece);
      const std::int32_t step = checked.stepOf(piece.kind, piece.stage);
      const bool turns = phase == last && !separateBackward;
      return std::tuple(phase, turns ? 0 : step, piece.microBatch, step);
    });
  }
  PipelineSchedule schedule = runOrders(checked, orders);
  schedule.kind = PipelineKind::Sequential;
  schedule.bound = lowerBound(problem, false);
  return schedule;
}

}  // namespace sluice::schedule
