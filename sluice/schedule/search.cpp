// A list schedule is quick and never gets stuck, but which rule is best depends on the costs. The
// candidates are ordered by how much memory they use, so that of equally long schedules the first
// is the one to keep. How many are tried depends on the size of the problem: the whole search stays
// linear in the number of pieces.
#include "sluice/schedule/search.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "sluice/base/error.h"
#include "sluice/schedule/list_scheduler.h"
#include "sluice/schedule/orders.h"
#include "sluice/schedule/run.h"

namespace sluice::schedule {
namespace {

/// Pieces scheduled by all candidates together, beyond the few that are always tried.
constexpr std::size_t kMostPieces = 600'000;
constexpr std::size_t kFewestCandidates = 3;

bool fitsByteCap(const Layout& layout, const PipelineSchedule& schedule) {
  for (std::int32_t d = 0; layout.hasByteCap() && d < layout.numDevices(); ++d) {
    if (schedule.peakBytes[static_cast<std::size_t>(d)] > layout.byteCap(d)) {
      return false;
    }
  }
  return true;
}

std::int32_t mostStagesOfADevice(const Layout& layout) {
  std::size_t most = 1;
  for (std::int32_t d = 0; d < layout.numDevices(); ++d) {
    most = std::max(most, layout.stagesOfDevice(d).size());
  }
  return static_cast<std::int32_t>(most);
}

/// What 1F1B holds on each device: a micro-batch of a stage stays for the stages after it, and one
/// enters per round of the stages of a device.
std::vector<std::int64_t> oneForwardOneBackwardLimit(const Layout& layout) {
  const std::int32_t chunks = mostStagesOfADevice(layout);
  std::vector<std::int64_t> limit(static_cast<std::size_t>(layout.numDevices()), 0);
  for (std::int32_t stage = 0; stage < layout.numStages(); ++stage) {
    limit[static_cast<std::size_t>(layout.device(stage))] +=
        (layout.numSlots() - layout.slot(stage) + chunks - 1) / chunks;
  }
  return limit;
}

/// The warm-up of a round-robin placement: all chunks but the last for a group of micro-batches,
/// then two more per device that follows.
std::vector<std::int64_t> chunkedLimit(const Layout& layout) {
  std::vector<std::int64_t> limit(static_cast<std::size_t>(layout.numDevices()), 1);
  std::int64_t rank = 0;
  const std::int64_t devices = layout.numUsedDevices();
  for (std::int32_t stage = 0; stage < layout.numStages(); ++stage) {
    if (layout.positionOnDevice(stage) == 0) {
      const std::int32_t d = layout.device(stage);
      const auto chunks = static_cast<std::int64_t>(layout.stagesOfDevice(d).size());
      limit[static_cast<std::size_t>(d)] = 2 * (devices - 1 - rank++) + (chunks - 1) * devices + 1;
    }
  }
  return limit;
}

/// The same number of whole micro-batches on every device.
std::vector<std::int64_t> microBatchLimit(const Layout& layout, std::int64_t microBatches) {
  std::vector<std::int64_t> limit;
  for (std::int32_t d = 0; d < layout.numDevices(); ++d) {
    limit.push_back(microBatches * static_cast<std::int64_t>(layout.stagesOfDevice(d).size()));
  }
  return limit;
}

std::vector<ListPolicy> chunkedPolicies(const Layout& layout) {
  const std::int32_t devices = layout.numUsedDevices();
  const std::vector<std::int64_t> limit = chunkedLimit(layout);
  std::vector<ListPolicy> policies;
  for (const std::int32_t group : {devices, std::int32_t{1}}) {
    policies.push_back({.group = group, .backwardFirst = false, .forwardLimit = limit});
    policies.push_back({.group = group, .forwardLimit = limit});
    policies.push_back({.group = group, .forwardLimit = microBatchLimit(layout, devices)});
    if (layout.hasByteCap()) {
      policies.push_back({.group = group, .backwardFirst = false, .tightReserve = true});
      policies.push_back({.group = group, .tightReserve = true});
    }
  }
  return policies;
}

std::vector<ListPolicy> zeroBubbleH1Policies(const Layout& layout) {
  const std::vector<std::int64_t> forward = oneForwardOneBackwardLimit(layout);
  // No device holds more than the one that 1F1B burdens most.
  const std::vector<std::int64_t> stash(forward.size(), std::ranges::max(forward));
  std::vector<ListPolicy> policies;
  for (const bool onlyGaps : {false, true}) {
    for (const bool backwardFirst : {false, true}) {
      policies.push_back({.backwardFirst = backwardFirst,
                          .fillOnlyGaps = onlyGaps,
                          .forwardLimit = forward,
                          .stashLimit = stash});
    }
  }
  return policies;
}

std::vector<ListPolicy> zeroBubblePolicies(const Layout& layout) {
  const std::int64_t devices = layout.numUsedDevices();
  std::vector<ListPolicy> policies;
  if (layout.hasByteCap()) {
    policies.push_back({.tightReserve = true});
    policies.push_back({});
    policies.push_back({.backwardFirst = false, .tightReserve = true});
    policies.push_back({.fillOnlyGaps = true, .tightReserve = true});
  }
  const std::vector<std::int64_t> lean = microBatchLimit(layout, devices);
  const std::vector<std::int64_t> ample = microBatchLimit(layout, 2 * devices);
  policies.push_back({.stashLimit = lean});
  policies.push_back({.stashLimit = ample});
  policies.push_back({.forwardLimit = lean, .stashLimit = ample});
  policies.push_back({.stashLimit = microBatchLimit(layout, devices + devices / 2)});
  policies.push_back({.backwardFirst = false, .stashLimit = ample});
  policies.push_back({.fillOnlyGaps = true, .stashLimit = ample});
  policies.push_back({.backwardFirst = false, .forwardLimit = lean, .stashLimit = ample});
  policies.push_back({.backwardFirst = false, .fillOnlyGaps = true, .stashLimit = ample});
  policies.push_back({.backwardFirst = false, .stashLimit = lean});
  policies.push_back({.fillOnlyGaps = true, .stashLimit = lean});
  policies.push_back({.backwardFirst = false,
                      .forwardLimit = oneForwardOneBackwardLimit(layout),
                      .stashLimit = lean});
  return policies;
}

/// 1F1B, with the weight parts right behind the input parts where the backward pass is split.
Orders splitOneForwardOneBackward(const Layout& layout) {
  Orders orders = oneForwardOneBackwardOrders(layout);
  if (layout.split()) {
    for (auto& order : orders) {
      std::vector<Piece> both;
      for (const Piece& piece : order) {
        both.push_back(piece);
        if (piece.kind == WorkKind::BackwardInput) {
          both.push_back({WorkKind::BackwardWeight, piece.stage, piece.microBatch});
        }
      }
      order = std::move(both);
    }
  }
  return orders;
}

std::vector<ListPolicy> policiesOf(PipelineKind kind, const Layout& layout) {
  switch (kind) {
    case PipelineKind::Chunked:
      return chunkedPolicies(layout);
    case PipelineKind::ZeroBubbleH1:
      return zeroBubbleH1Policies(layout);
    default:
      return zeroBubblePolicies(layout);
  }
}

}  // namespace

PipelineSchedule searchOrders(PipelineKind kind, const Layout& layout, std::int64_t bound) {
  std::optional<PipelineSchedule> best;
  const auto offer = [&](const Orders& orders) {
    PipelineSchedule schedule = runOrders(layout, orders);
    if ((!best || schedule.makespan < best->makespan) && fitsByteCap(layout, schedule)) {
      best = std::move(schedule);
    }
  };
  const std::size_t affordable = std::max(kFewestCandidates, kMostPieces / layout.numPieces());
  std::size_t tried = 0;
  for (const ListPolicy& policy : policiesOf(kind, layout)) {
    if (best && (best->makespan <= bound || tried >= affordable)) {
      break;
    }
    ++tried;
    if (const std::optional<Orders> orders = listOrders(layout, policy)) {
      offer(*orders);
    }
  }
  if (!best || best->makespan > bound) {
    offer(splitOneForwardOneBackward(layout));
  }
  SLUICE_CHECK(best.has_value(), "no list schedule of {} fits", name(kind));
  return *std::move(best);
}

}  // namespace sluice::schedule
