// Builds orders by an event-driven simulation of the pipeline: every free device chooses among its
// ready pieces, within limits on what it holds. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/schedule/checked_problem.h"

namespace sluice::schedule {

/// How a free device chooses.
struct ListPolicy {
  /// Number of micro-batches that pass a stage before the device turns to its next stage.
  std::int32_t group = 1;
  /// If a backward and a forward piece are ready, the backward piece goes first.
  bool backwardFirst = true;
  /// An idle device runs a weight part only if it ends before the next piece is known to arrive.
  bool fillOnlyGaps = false;
  /// Keeps less room for the oldest micro-batch: uses a byte cap better, but may get stuck.
  bool tightReserve = false;
  /// If not 0, the seed of random exceptions to the rules above: now and then the other kind goes
  /// first, or a device waits for a piece that is known to arrive.
  std::uint32_t seed = 0;
  /// Maximum number of forward pieces whose backward piece has not ended, per device; empty: no
  /// limit. The oldest micro-batch of a device may always continue.
  std::vector<std::int64_t> forwardLimit = {};
  /// Maximum number of forward pieces whose last piece has not ended, per device; empty: no limit.
  std::vector<std::int64_t> stashLimit = {};
};

/// Returns orders within the byte cap of the checked, or nullopt if a tight reserve got stuck.
/// Throws InvalidArgument if a device cannot hold a single micro-batch.
std::optional<Orders> listOrders(const CheckedProblem& checked, const ListPolicy& policy);

}  // namespace sluice::schedule
