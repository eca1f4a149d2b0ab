// Times that no plan of a model can do without, read from one of its programs. Every plan runs the
// ops of this program, each on one device and for one micro-batch after the other, and an op waits
// for those whose results it reads. What plans may do differently counts nothing: copies, changes
// of storage, packing, the fixed cost of tasks.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/device/cost_model.h"
#include "sluice/program/program.h"

namespace sluice::runtime {

/// In ticks, for one round of one replica.
struct SimBound {
  std::int64_t work = 0;  ///< of all kernels, one after the other
  /// The longest way through one kernel: what has to come before it for the first micro-batch, its
  /// own time for every micro-batch, and what has to follow for the last one.
  std::int64_t chain = 0;

  bool operator==(const SimBound&) const = default;
};

/// `program` recomputes nothing. `models` as for costsOf.
SimBound boundOf(const program::Program& program, std::span<const device::CostModel* const> models);

}  // namespace sluice::runtime
