#include "sluice/schedule/device_memory.h"

#include <algorithm>

#include "sluice/base/error.h"

namespace sluice::schedule {
namespace {

std::int64_t limitOf(const std::vector<std::int64_t>& limits, std::int32_t device) {
  return limits[static_cast<std::size_t>(device)];
}

}  // namespace

DeviceMemory::DeviceMemory(const CheckedProblem& checked,
                           std::int32_t device,
                           const ListPolicy& policy)
    : checked_(checked),
      stages_(checked.stagesOfDevice(device)),
      tightReserve_(policy.tightReserve),
      started_(stages_.size(), 0),
      released_(started_),
      ended_(static_cast<std::size_t>(checked.microBatches()), 0) {
  if (!policy.forwardLimit.empty()) {
    forwardLimit_ = limitOf(policy.forwardLimit, device);
  }
  if (!policy.stashLimit.empty()) {
    stashLimit_ = limitOf(policy.stashLimit, device);
  }
  for (const std::int32_t stage : stages_) {
    const StageBytes& bytes = checked.bytes(stage);
    if (!checked.training()) {
      microBatchPeak_ = std::max(microBatchPeak_, bytes.activations);
      continue;
    }
    microBatchBytes_ += bytes.activations;
    const std::int64_t weightGrads = checked.split() ? bytes.weightGradInputs : 0;
    microBatchPeak_ = std::max(microBatchPeak_, microBatchBytes_ + weightGrads);
  }
  oldestToCome_ = microBatchBytes_;
  if (checked.hasByteCap()) {
    byteCap_ = checked.byteCap(device);
    if (byteCap_ < microBatchPeak_) {
      raise<InvalidArgument>(
          "schedule: device {} needs at least {} bytes for one micro-batch, its cap is {}",
          device,
          microBatchPeak_,
          byteCap_);
    }
  }
}

std::int32_t DeviceMemory::oldestNextForward() const {
  return oldestStarted_ < stages_.size() ? stages_[oldestStarted_] : -1;
}

std::int64_t DeviceMemory::takes(const Piece& piece) const {
  const StageBytes& bytes = checked_.bytes(piece.stage);
  switch (piece.kind) {
    case WorkKind::Forward:
      return bytes.activations;
    case WorkKind::BackwardInput:
      return bytes.weightGradInputs;
    default:
      return 0;
  }
}

bool DeviceMemory::admits(const Piece& forward) const {
  // Weight parts that have yet to run can always make room for it.
  const bool canShrink = stashed_ > forwards_;
  if (!checked_.training() || (forward.microBatch == oldest_ && !(canShrink && stashIsFull()))) {
    return true;
  }
  if (forwards_ >= forwardLimit_ || stashed_ >= stashLimit_) {
    return false;
  }
  const std::int64_t later = laterActivations_ + takes(forward);
  const std::int64_t reserve =
      tightReserve_ ? oldestHeld_ + oldestToCome_ + microBatchPeak_ - microBatchBytes_
                    : microBatchPeak_;
  return later + reserve <= byteCap_;
}

bool DeviceMemory::fits(const Piece& piece) const {
  return held_ + takes(piece) <= byteCap_;
}

void DeviceMemory::start(const Piece& piece) {
  held_ += takes(piece);
  if (piece.kind != WorkKind::Forward || !checked_.training()) {
    return;
  }
  ++forwards_;
  ++stashed_;
  ++started_[position(piece)];
  const std::int64_t bytes = checked_.bytes(piece.stage).activations;
  if (piece.microBatch == oldest_) {
    oldestHeld_ += bytes;
    oldestToCome_ -= bytes;
    ++oldestStarted_;
  } else {
    laterActivations_ += bytes;
  }
}

void DeviceMemory::finish(const Piece& piece) {
  const StageBytes& bytes = checked_.bytes(piece.stage);
  if (piece.kind == WorkKind::BackwardWeight) {
    held_ -= bytes.weightGradInputs;
    --stashed_;
  } else if (piece.kind != WorkKind::Forward || !checked_.training()) {
    held_ -= bytes.activations;
    finishBackward(piece);
  }
}

void DeviceMemory::finishBackward(const Piece& piece) {
  if (checked_.training()) {
    const std::int64_t bytes = checked_.bytes(piece.stage).activations;
    --forwards_;
    stashed_ -= checked_.split() ? 0 : 1;
    (piece.microBatch == oldest_ ? oldestHeld_ : laterActivations_) -= bytes;
  }
  ++released_[position(piece)];
  ++ended_[static_cast<std::size_t>(piece.microBatch)];
  const auto all = static_cast<std::int32_t>(stages_.size());
  while (oldest_ < checked_.microBatches() && ended_[static_cast<std::size_t>(oldest_)] == all) {
    ++oldest_;
    advanceOldest();
  }
}

void DeviceMemory::advanceOldest() {
  oldestHeld_ = 0;
  oldestToCome_ = 0;
  oldestStarted_ = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const std::int64_t bytes = checked_.training() ? checked_.bytes(stages_[i]).activations : 0;
    if (started_[i] <= oldest_) {
      oldestToCome_ += bytes;
      continue;
    }
    ++oldestStarted_;
    if (released_[i] <= oldest_) {
      oldestHeld_ += bytes;
    }
  }
  laterActivations_ -= oldestHeld_;
}

}  // namespace sluice::schedule
