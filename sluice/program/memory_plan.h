// Second half of lowering: lets buffers share and reuse memory. Private to the program module.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sluice/program/emitter.h"
#include "sluice/program/round.h"

namespace sluice::program {

/// Lets element-wise results overwrite operands that are not used later, and lets producers write
/// directly into the variable to which their result is assigned. Changes no value.
void shareBuffers(Emitted& emitted);

struct PlanSummary {
  std::size_t transientBytes = 0;
  std::size_t transientLowerBound = 0;
  std::string largestAtPeak;  ///< text: the ten largest buffers alive at the peak
  std::string segmentAtPeak;  ///< text: what runs at the peak, in a program that streams
};

/// Gives every transient buffer its offset, device by device; remote memory comes last. A buffer
/// that other lanes touch lives for the whole round. Packed copies, mirrors, and the rings of a
/// device with several micro-batches under way live until the end of the loop. All others live from
/// their first write to their last read.
Table<PlanSummary> placeBuffers(Emitted& emitted, const Round& round, std::int32_t devices);

/// "1.5 MiB"
std::string formatBytes(std::size_t bytes);

}  // namespace sluice::program
