// Builds orders by running the pipeline on a clock of events and letting every free device choose
// among the pieces that are ready, within limits on what it holds. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/schedule/layout.h"

namespace sluice::schedule {

/// How a free device chooses.
struct ListPolicy {
  /// Micro-batches that pass a stage together before the device turns to its next stage.
  std::int32_t group = 1;
  /// Of a ready backward and a ready forward piece the backward one goes first.
  bool backwardFirst = true;
  /// An idle device runs a weight part only if it ends before the next piece is known to arrive.
  bool fillOnlyGaps = false;
  /// Keeps less room for the oldest micro-batch: fills a byte cap better, but may get stuck.
  bool tightReserve = false;
  /// Not 0: seed of random exceptions to the rules above. Now and then the other kind goes first,
  /// or a device waits for a piece that is known to arrive.
  std::uint32_t seed = 0;
  /// Per device, empty for none: most forward pieces whose backward piece has not ended. The oldest
  /// micro-batch of a device is always let through.
  std::vector<std::int64_t> forwardLimit = {};
  /// Per device, empty for none: most forward pieces whose last piece has not ended.
  std::vector<std::int64_t> stashLimit = {};
};

/// Orders within the byte cap of the layout, or nothing if a tight reserve got stuck. Throws
/// InvalidArgument if a device cannot hold a single micro-batch.
std::optional<Orders> listOrders(const Layout& layout, const ListPolicy& policy);

}  // namespace sluice::schedule
