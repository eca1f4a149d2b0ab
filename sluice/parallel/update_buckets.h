// Cuts the update by the variables that it updates, so that their state can stream through a
// device, and finds the parts that may run before the loop over all phases has ended. Private to
// the module.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/parallel/segments.h"

namespace sluice::parallel {

struct UpdateBuckets {
  std::vector<std::int32_t> bucket;  ///< by OpId; -1: for several buckets, or the update is not cut
  std::vector<bool> inLoop;          ///< by OpId; for bucket -1: may run before the loop
  std::vector<std::int32_t> stage;   ///< by bucket, under phases: the stage that it belongs to
};

/// Ops share a bucket if they use the same variable or if one reads a tensor that the other makes.
/// A bucket holds at most as many streamed bytes as the largest variable and its state, unless
/// updates are whole. Under phases it belongs to the earliest stage that uses one of its variables.
UpdateBuckets cutUpdate(const ir::Graph& graph, const CutOptions& options);

}  // namespace sluice::parallel
