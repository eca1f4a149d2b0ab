// Second half of lowering: buffers share and reuse memory. Private to the program module.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sluice/program/emitter.h"
#include "sluice/program/round.h"

namespace sluice::program {

/// Lets element-wise results overwrite operands that die there, and producers write straight into
/// the variable that their result is assigned to. Changes no value.
void shareBuffers(Emitted& emitted);

struct PlanSummary {
  std::size_t transientBytes = 0;
  std::size_t transientLowerBound = 0;
  std::string largestAtPeak;  ///< text: the ten largest buffers alive at the peak
};

/// Gives every transient buffer its offset, device by device, those of remote memory last. What
/// other lanes touch lives the whole round, packed copies and mirrors until the end of the loop, as
/// do the rings of a device that has several micro-batches under way; all others from their first
/// write to their last read.
std::vector<PlanSummary> placeBuffers(Emitted& emitted, const Round& round, std::int32_t devices);

/// "1.5 MiB"
std::string formatBytes(std::size_t bytes);

}  // namespace sluice::program
