// Runs orders on a clock of events and measures the result. Internal to the module.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/schedule/layout.h"

namespace sluice::schedule {

/// Every piece starts when its device and its predecessors are done. Fills everything but `kind`
/// and `bound`. Throws InternalError if the orders deadlock.
PipelineSchedule runOrders(const Layout& layout, const Orders& orders);

/// All micro-batches of the layout one behind the other, each as the single one of `one`.
PipelineSchedule repeatSchedule(const Layout& layout, const PipelineSchedule& one);

}  // namespace sluice::schedule
