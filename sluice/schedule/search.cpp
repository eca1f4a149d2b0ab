// A list schedule is quick to make and never gets stuck, but the best rule depends on the costs.
// The candidates are ordered by how much memory they use, so that the first of equally long
// schedules is the one to keep. The number of candidates depends on the size of the problem, so
// that the whole search stays linear in the number of pieces.
#include "sluice/schedule/search.h"

#include <algorithm>
#include <optional>
#include <random>

#include "sluice/base/error.h"
#include "sluice/schedule/list_scheduler.h"
#include "sluice/schedule/orders.h"
#include "sluice/schedule/run.h"

namespace sluice::schedule {
namespace {

/// Pieces scheduled by all candidates together, beyond the few that are always tried.
constexpr std::size_t kMostSearched = 400'000;
constexpr std::size_t kFewestCandidates = 3;
/// Small problems are also tried with random exceptions to the rules, with fixed seeds.
constexpr std::size_t kMostVariations = 64;
constexpr std::size_t kMostVariedPieces = 60'000;

bool fitsByteCap(const CheckedProblem& checked, const PipelineSchedule& schedule) {
  for (std::int32_t d = 0; checked.hasByteCap() && d < checked.numDevices(); ++d) {
    if (schedule.peakBytes[static_cast<std::size_t>(d)] > checked.byteCap(d)) {
      return false;
    }
  }
  return true;
}

/// What 1F1B holds on each device: a micro-batch of a stage stays for the stages after it, and one
/// enters per round of the stages of a device.
std::vector<std::int64_t> oneForwardOneBackwardLimit(const CheckedProblem& checked) {
  const std::int32_t chunks = checked.mostStagesOfADevice();
  std::vector<std::int64_t> limit(static_cast<std::size_t>(checked.numDevices()), 0);
  for (std::int32_t stage = 0; stage < checked.numStages(); ++stage) {
    limit[static_cast<std::size_t>(checked.device(stage))] +=
        (checked.numSlots() - checked.slot(stage) + chunks - 1) / chunks;
  }
  return limit;
}

/// The warm-up of a round-robin placement: all chunks but the last for a group of micro-batches,
/// then two more per device that follows.
std::vector<std::int64_t> chunkedLimit(const CheckedProblem& checked) {
  std::vector<std::int64_t> limit(static_cast<std::size_t>(checked.numDevices()), 1);
  std::int64_t rank = 0;
  const std::int64_t devices = checked.numUsedDevices();
  for (std::int32_t stage = 0; stage < checked.numStages(); ++stage) {
    if (checked.positionOnDevice(stage) == 0) {
      const std::int32_t d = checked.device(stage);
      const auto chunks = static_cast<std::int64_t>(checked.stagesOfDevice(d).size());
      limit[static_cast<std::size_t>(d)] = 2 * (devices - 1 - rank++) + (chunks - 1) * devices + 1;
    }
  }
  return limit;
}

/// The same number of whole micro-batches on every device.
std::vector<std::int64_t> microBatchLimit(const CheckedProblem& checked,
                                          std::int64_t microBatches) {
  std::vector<std::int64_t> limit;
  limit.reserve(static_cast<std::size_t>(checked.numDevices()));
  for (std::int32_t d = 0; d < checked.numDevices(); ++d) {
    limit.push_back(microBatches * static_cast<std::int64_t>(checked.stagesOfDevice(d).size()));
  }
  return limit;
}

std::vector<ListPolicy> chunkedPolicies(const CheckedProblem& checked) {
  const std::int32_t devices = checked.numUsedDevices();
  const std::vector<std::int64_t> limit = chunkedLimit(checked);
  std::vector<ListPolicy> policies;
  for (const std::int32_t group : {devices, std::int32_t{1}}) {
    policies.push_back({.group = group, .backwardFirst = false, .forwardLimit = limit});
    policies.push_back({.group = group, .forwardLimit = limit});
    policies.push_back({.group = group, .forwardLimit = microBatchLimit(checked, devices)});
    if (checked.hasByteCap()) {
      const std::vector<std::int64_t> ample = microBatchLimit(checked, std::int64_t{2} * devices);
      for (const bool backwardFirst : {false, true}) {
        policies.push_back({.group = group,
                            .backwardFirst = backwardFirst,
                            .tightReserve = true,
                            .forwardLimit = ample});
      }
    }
  }
  return policies;
}

std::vector<ListPolicy> zeroBubbleH1Policies(const CheckedProblem& checked) {
  const std::vector<std::int64_t> forward = oneForwardOneBackwardLimit(checked);
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

std::vector<ListPolicy> zeroBubblePolicies(const CheckedProblem& checked) {
  const std::int64_t devices = checked.numUsedDevices();
  const std::vector<std::int64_t> lean = microBatchLimit(checked, devices);
  const std::vector<std::int64_t> ample = microBatchLimit(checked, 2 * devices);
  std::vector<ListPolicy> policies;
  if (checked.hasByteCap()) {
    // A cap that allows more is no reason to hold more, so the limits stay.
    policies.push_back({.tightReserve = true, .stashLimit = lean});
    policies.push_back({.tightReserve = true, .stashLimit = ample});
    policies.push_back({.stashLimit = ample});
    policies.push_back({.backwardFirst = false, .tightReserve = true, .stashLimit = ample});
    policies.push_back({.fillOnlyGaps = true, .tightReserve = true, .stashLimit = ample});
  }
  policies.push_back({.stashLimit = lean});
  policies.push_back({.stashLimit = ample});
  policies.push_back({.forwardLimit = lean, .stashLimit = ample});
  policies.push_back({.stashLimit = microBatchLimit(checked, devices + devices / 2)});
  policies.push_back({.backwardFirst = false, .stashLimit = ample});
  policies.push_back({.fillOnlyGaps = true, .stashLimit = ample});
  policies.push_back({.backwardFirst = false, .forwardLimit = lean, .stashLimit = ample});
  policies.push_back({.backwardFirst = false, .fillOnlyGaps = true, .stashLimit = ample});
  policies.push_back({.backwardFirst = false, .stashLimit = lean});
  policies.push_back({.fillOnlyGaps = true, .stashLimit = lean});
  policies.push_back({.backwardFirst = false,
                      .forwardLimit = oneForwardOneBackwardLimit(checked),
                      .stashLimit = lean});
  return policies;
}

/// The policy with random exceptions and somewhat looser limits.
ListPolicy variation(ListPolicy policy, std::uint32_t looser, std::uint32_t seed) {
  policy.seed = seed;
  std::mt19937 random(seed);
  for (auto* limits : {&policy.forwardLimit, &policy.stashLimit}) {
    for (std::int64_t& limit : *limits) {
      limit += random() % (looser + 1);
    }
  }
  return policy;
}

/// Keeps the shortest schedule that fits, the first of equals, and stops looking at the bound.
class Best {
 public:
  Best(const CheckedProblem& checked, std::int64_t bound) : checked_(checked), bound_(bound) {}

  bool empty() const { return !best_.has_value(); }

  void offer(const Orders& orders) {
    if (done()) {
      return;
    }
    PipelineSchedule schedule = runOrders(checked_, orders);
    if ((empty() || schedule.makespan < best_->makespan) && fitsByteCap(checked_, schedule)) {
      best_ = std::move(schedule);
    }
  }

  void offer(const ListPolicy& policy) { offer(policy, checked_); }

  /// `costs` may differ from the checked of the problem in its costs.
  void offer(const ListPolicy& policy, const CheckedProblem& costs) {
    if (done()) {
      return;
    }
    if (const std::optional<Orders> orders = listOrders(costs, policy)) {
      offer(*orders);
    }
  }

  PipelineSchedule take() && {
    SLUICE_CHECK(!empty(), "no list schedule fits");
    return *std::move(best_);
  }

 private:
  bool done() const { return best_ && best_->makespan <= bound_; }

  const CheckedProblem& checked_;
  std::int64_t bound_;
  std::optional<PipelineSchedule> best_;
};

/// 1F1B, with the weight parts right behind the input parts where the backward pass is split.
Orders splitOneForwardOneBackward(const CheckedProblem& checked) {
  Orders orders = oneForwardOneBackwardOrders(checked);
  if (checked.split()) {
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

std::vector<ListPolicy> policiesOf(PipelineKind kind, const CheckedProblem& checked) {
  switch (kind) {
    case PipelineKind::Chunked:
      return chunkedPolicies(checked);
    case PipelineKind::ZeroBubbleH1:
      return zeroBubbleH1Policies(checked);
    default:
      return zeroBubblePolicies(checked);
  }
}

}  // namespace

PipelineSchedule searchOrders(PipelineKind kind,
                              const CheckedProblem& checked,
                              std::int64_t bound) {
  Best best(checked, bound);
  const std::vector<ListPolicy> policies = policiesOf(kind, checked);
  const std::size_t affordable = std::max(kFewestCandidates, kMostSearched / checked.numPieces());
  for (std::size_t i = 0; i < policies.size() && (best.empty() || i < affordable); ++i) {
    best.offer(policies[i]);
  }
  best.offer(splitOneForwardOneBackward(checked));
  // Orders made for even costs keep their rhythm where the real costs would break it.
  const CheckedProblem even = checked.evened();
  for (std::size_t i = 0; i < std::min(policies.size(), affordable) / 2; ++i) {
    best.offer(policies[i], even);
  }
  const std::size_t tries = std::min(kMostVariations, kMostVariedPieces / checked.numPieces());
  // ZeroBubbleH1 promises the memory of 1F1B.
  const auto looser =
      static_cast<std::uint32_t>(kind == PipelineKind::ZeroBubbleH1 ? 0 : checked.numUsedDevices());
  for (std::size_t i = 0; i < tries; ++i) {
    const auto seed = static_cast<std::uint32_t>(i + 1);
    best.offer(variation(policies[i % policies.size()], looser, seed));
  }
  return std::move(best).take();
}

}  // namespace sluice::schedule
