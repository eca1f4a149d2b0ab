// Clock says when a micro-batch enters a lock-step pipeline and in which cycle a stage works on it.
// Both the cycle tables and the orders of Sequential, Grouped, Interleaved and Popart are derived
// from it. Internal to the module.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/schedule/checked_problem.h"

namespace sluice::schedule {

struct Clock {
  std::vector<std::int32_t> offsets;  ///< start of each micro-batch of one period, ascending
  std::int32_t steps = 1;             ///< steps of a micro-batch; also the length of a period
  bool merged = false;                ///< the last slot runs both passes in one step

  std::int32_t overlap() const { return static_cast<std::int32_t>(offsets.size()); }
  std::int64_t start(std::int32_t microBatch) const {
    return std::int64_t{steps} * (microBatch / overlap()) +
           offsets[static_cast<std::size_t>(microBatch % overlap())];
  }
  std::int32_t step(const CheckedProblem& checked, WorkKind kind, std::int32_t stage) const {
    return checked.stepOf(kind, stage) - (merged && kind != WorkKind::Forward ? 1 : 0);
  }
  std::int64_t cycle(const CheckedProblem& checked, const Piece& piece) const {
    return start(piece.microBatch) + step(checked, piece.kind, piece.stage);
  }
};

/// Throws InvalidArgument if the kind has no lock-step form.
Clock clockOf(PipelineKind kind, const CheckedProblem& checked);

}  // namespace sluice::schedule
