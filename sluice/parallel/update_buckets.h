// Cuts the update by the variables it works for, so that their state can stream through a device,
// and finds what of it may run before the loop over all phases has ended. Private to the module.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/parallel/segments.h"

namespace sluice::parallel {

struct UpdateBuckets {
  std::vector<std::int32_t> bucket;  ///< by OpId; -1: serves several, or the update is not cut
  std::vector<bool> inLoop;          ///< by OpId; of bucket -1: may run before the loop
  std::vector<std::int32_t> stage;   ///< by bucket, under phases: the one it belongs to
};

/// Ops that work on the same variable or, by tensors, on each other's results share a bucket. It
/// holds at most as many streamed bytes as the largest variable and its state need, unless updates
/// are whole; under phases it belongs to the earliest stage that uses one of its variables.
UpdateBuckets cutUpdate(const ir::Graph& graph, const CutOptions& options);

}  // namespace sluice::parallel
