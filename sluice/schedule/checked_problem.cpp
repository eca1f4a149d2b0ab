#include "sluice/schedule/checked_problem.h"

#include <algorithm>

#include "sluice/base/error.h"

namespace sluice::schedule {
namespace {

constexpr std::int32_t kMostDevices = 1 << 16;
constexpr std::int64_t kMostPieces = std::int64_t{1} << 28;
constexpr double kLargestTime = 0x1p60;

void checkLength(std::string_view what, std::size_t got, std::size_t expected) {
  if (got != 0 && got != expected) {
    raise<InvalidArgument>("schedule: expected {} {}, got {}", expected, what, got);
  }
}

}  // namespace

CheckedProblem::CheckedProblem(const PipelineProblem& problem, bool splitBackward)
    : device_(problem.deviceOfStage),
      microBatches_(problem.microBatches),
      training_(problem.training),
      split_(problem.training && splitBackward) {
  if (device_.empty()) {
    raise<InvalidArgument>("schedule: expected at least one stage, got none");
  }
  if (microBatches_ < 1) {
    raise<InvalidArgument>("schedule: expected at least one micro-batch, got {}", microBatches_);
  }
  if (split_) {
    kinds_ = {WorkKind::Forward, WorkKind::BackwardInput, WorkKind::BackwardWeight};
  } else if (training_) {
    kinds_ = {WorkKind::Forward, WorkKind::Backward};
  } else {
    kinds_ = {WorkKind::Forward};
  }
  if (static_cast<std::int64_t>(device_.size()) * microBatches_ > kMostPieces) {
    raise<InvalidArgument>("schedule: {} stages of {} micro-batches are more than {} pieces",
                           device_.size(),
                           microBatches_,
                           kMostPieces);
  }
  placeStages();
  takeSlots(problem);
  takeCosts(problem);
  takeBytes(problem);
}

void CheckedProblem::placeStages() {
  for (std::int32_t stage = 0; stage < numStages(); ++stage) {
    const std::int32_t d = device(stage);
    if (d < 0 || d >= kMostDevices) {
      raise<InvalidArgument>(
          "schedule: expected a device in [0, {}) for stage {}, got {}", kMostDevices, stage, d);
    }
    stagesOfDevice_.resize(std::max(stagesOfDevice_.size(), index(d) + 1));
    usedDevices_ += stagesOfDevice_[index(d)].empty() ? 1 : 0;
    position_.push_back(static_cast<std::int32_t>(stagesOfDevice_[index(d)].size()));
    stagesOfDevice_[index(d)].push_back(stage);
    mostStages_ = std::max(mostStages_, position_.back() + 1);
  }
}

void CheckedProblem::takeSlots(const PipelineProblem& problem) {
  checkLength("slots, one per stage", problem.slotOfStage.size(), device_.size());
  slot_ = problem.slotOfStage;
  for (std::int32_t stage = 0; stage < numStages(); ++stage) {
    if (problem.slotOfStage.empty()) {
      slot_.push_back(stage);
    }
    const std::int32_t previous = stage == 0 ? -1 : slot(stage - 1);
    const std::int32_t got = slot(stage);
    if (got != previous + 1 && (stage == 0 || got != previous)) {
      raise<InvalidArgument>(
          "schedule: expected slots that start at 0 and grow by 0 or 1, got {} after {} at stage "
          "{}",
          got,
          previous,
          stage);
    }
    stagesOfSlot_.resize(index(got) + 1);
    for (const std::int32_t other : stagesOfSlot(got)) {
      if (device(other) == device(stage)) {
        raise<InvalidArgument>(
            "schedule: stages {} and {} share slot {} and device {}; concurrent stages need "
            "different devices",
            other,
            stage,
            got,
            device(stage));
      }
    }
    stagesOfSlot_[index(got)].push_back(stage);
  }
}

void CheckedProblem::takeCosts(const PipelineProblem& problem) {
  checkLength("costs, one per stage", problem.costs.size(), device_.size());
  costs_ = problem.costs;
  costs_.resize(device_.size());
  transferCost_ = problem.transferCost;
  double total = 0;
  for (std::int32_t stage = 0; stage < numStages(); ++stage) {
    const StageCost& c = cost(stage);
    if (c.forward < 0 || c.backwardInput < 0 || c.backwardWeight < 0) {
      raise<InvalidArgument>("schedule: expected costs of at least 0, got {}, {}, {} for stage {}",
                             c.forward,
                             c.backwardInput,
                             c.backwardWeight,
                             stage);
    }
    total += static_cast<double>(c.forward) + static_cast<double>(c.backwardInput) +
             static_cast<double>(c.backwardWeight) + 2 * static_cast<double>(transferCost_);
  }
  if (transferCost_ < 0) {
    raise<InvalidArgument>("schedule: expected a transfer cost of at least 0, got {}",
                           transferCost_);
  }
  if (total * microBatches_ > kLargestTime) {
    raise<InvalidArgument>(
        "schedule: the costs of all stages and micro-batches add up to {}, "
        "more than a time can hold; give them in a coarser unit",
        total * microBatches_);
  }
}

void CheckedProblem::takeBytes(const PipelineProblem& problem) {
  checkLength("byte counts, one per stage", problem.bytes.size(), device_.size());
  checkLength("byte caps, one per device", problem.byteCap.size(), stagesOfDevice_.size());
  bytes_ = problem.bytes;
  bytes_.resize(device_.size());
  byteCap_ = problem.byteCap;
  double total = 0;
  for (std::int32_t stage = 0; stage < numStages(); ++stage) {
    const StageBytes& b = bytes(stage);
    if (b.activations < 0 || b.weightGradInputs < 0) {
      raise<InvalidArgument>("schedule: expected bytes of at least 0, got {} and {} for stage {}",
                             b.activations,
                             b.weightGradInputs,
                             stage);
    }
    total += static_cast<double>(b.activations) + static_cast<double>(b.weightGradInputs);
  }
  if (total * microBatches_ > kLargestTime) {
    raise<InvalidArgument>(
        "schedule: the bytes of all stages and micro-batches add up to {}, more "
        "than can be counted; give them in a coarser unit",
        total * microBatches_);
  }
}

CheckedProblem CheckedProblem::evened() const {
  StageCost sum{0, 0, 0};
  for (const StageCost& c : costs_) {
    sum.forward += c.forward;
    sum.backwardInput += c.backwardInput;
    sum.backwardWeight += c.backwardWeight;
  }
  const std::int64_t count = numStages();
  CheckedProblem even = *this;
  even.costs_.assign(costs_.size(),
                     {sum.forward / count, sum.backwardInput / count, sum.backwardWeight / count});
  return even;
}

std::int64_t CheckedProblem::duration(WorkKind kind, std::int32_t stage) const {
  const StageCost& c = cost(stage);
  switch (kind) {
    case WorkKind::Forward:
      return c.forward;
    case WorkKind::Backward:
      return c.backwardInput + c.backwardWeight;
    case WorkKind::BackwardInput:
      return c.backwardInput;
    case WorkKind::BackwardWeight:
      return c.backwardWeight;
  }
  SLUICE_CHECK(false, "no such kind of work");
}

}  // namespace sluice::schedule
