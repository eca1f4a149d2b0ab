// A checked PipelineProblem with its defaults filled in; all schedulers of this module read it.
// Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/schedule/pipeline.h"

namespace sluice::schedule {

/// The row of a kind in tables: 0 forward, 1 backward or its input part, 2 weight part.
constexpr std::size_t rowOf(WorkKind kind) {
  return kind == WorkKind::Forward ? 0 : kind == WorkKind::BackwardWeight ? 2 : 1;
}

/// One piece of work, before it has times.
struct Piece {
  WorkKind kind = WorkKind::Forward;
  std::int32_t stage = 0;
  std::int32_t microBatch = 0;
};

/// The pieces of each device, in the order in which it runs them.
using Orders = std::vector<std::vector<Piece>>;

class CheckedProblem {
 public:
  /// Throws InvalidArgument for an invalid problem.
  CheckedProblem(const PipelineProblem& problem, bool splitBackward);

  /// Returns the same problem with the mean cost for every stage.
  CheckedProblem evened() const;

  std::int32_t numStages() const { return static_cast<std::int32_t>(device_.size()); }
  std::int32_t numSlots() const { return static_cast<std::int32_t>(stagesOfSlot_.size()); }
  std::int32_t numDevices() const { return static_cast<std::int32_t>(stagesOfDevice_.size()); }
  std::int32_t numUsedDevices() const { return usedDevices_; }
  std::int32_t microBatches() const { return microBatches_; }
  bool training() const { return training_; }
  /// Whether the backward pass is split into two parts; never true for inference.
  bool split() const { return split_; }
  /// The kinds of pieces that a stage has, in the order of their rows.
  const std::vector<WorkKind>& kinds() const { return kinds_; }
  /// Number of steps of a micro-batch in the lock-step pipeline: the slots, twice when training.
  std::int32_t numSteps() const { return training_ ? 2 * numSlots() : numSlots(); }
  /// The step in which a stage runs; a weight part runs in the same step as its input part.
  std::int32_t stepOf(WorkKind kind, std::int32_t stage) const {
    return kind == WorkKind::Forward ? slot(stage) : 2 * numSlots() - 1 - slot(stage);
  }

  std::int32_t device(std::int32_t stage) const { return device_[index(stage)]; }
  std::int32_t slot(std::int32_t stage) const { return slot_[index(stage)]; }
  const std::vector<std::int32_t>& stagesOfSlot(std::int32_t s) const {
    return stagesOfSlot_[index(s)];
  }
  /// The stages of the device, ascending.
  const std::vector<std::int32_t>& stagesOfDevice(std::int32_t d) const {
    return stagesOfDevice_[index(d)];
  }
  std::int32_t mostStagesOfADevice() const { return mostStages_; }
  /// The position of a stage in the list of its device.
  std::int32_t positionOnDevice(std::int32_t stage) const { return position_[index(stage)]; }
  const StageCost& cost(std::int32_t stage) const { return costs_[index(stage)]; }
  const StageBytes& bytes(std::int32_t stage) const { return bytes_[index(stage)]; }
  std::int64_t duration(WorkKind kind, std::int32_t stage) const;
  std::int64_t transfer(std::int32_t fromStage, std::int32_t toStage) const {
    return device(fromStage) == device(toStage) ? 0 : transferCost_;
  }
  bool hasByteCap() const { return !byteCap_.empty(); }
  std::int64_t byteCap(std::int32_t d) const { return byteCap_[index(d)]; }

  /// A dense number of a piece, for tables over all pieces.
  std::size_t id(WorkKind kind, std::int32_t stage, std::int32_t microBatch) const {
    return (rowOf(kind) * device_.size() + index(stage)) * index(microBatches_) + index(microBatch);
  }
  std::size_t numPieces() const { return kinds_.size() * device_.size() * index(microBatches_); }

  /// Calls visit(kind, stage) for every piece of the same micro-batch that must end before it.
  template <class Visit>
  void eachBefore(WorkKind kind, std::int32_t stage, Visit visit) const {
    if (kind == WorkKind::Forward) {
      eachInSlot(slot(stage) - 1, [&](std::int32_t other) { visit(kind, other); });
    } else if (kind == WorkKind::BackwardWeight) {
      visit(WorkKind::BackwardInput, stage);
    } else {
      visit(WorkKind::Forward, stage);
      eachInSlot(slot(stage) + 1, [&](std::int32_t other) { visit(kind, other); });
    }
  }
  /// Calls visit(kind, stage) for every piece of the same micro-batch that waits for this one.
  template <class Visit>
  void eachAfter(WorkKind kind, std::int32_t stage, Visit visit) const {
    if (kind == WorkKind::Forward) {
      eachInSlot(slot(stage) + 1, [&](std::int32_t other) { visit(kind, other); });
      if (training_) {
        visit(kinds_[1], stage);
      }
    } else if (kind != WorkKind::BackwardWeight) {
      eachInSlot(slot(stage) - 1, [&](std::int32_t other) { visit(kind, other); });
      if (split_) {
        visit(WorkKind::BackwardWeight, stage);
      }
    }
  }

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  template <class Visit>
  void eachInSlot(std::int32_t s, Visit visit) const {
    if (s >= 0 && s < numSlots()) {
      for (const std::int32_t stage : stagesOfSlot(s)) {
        visit(stage);
      }
    }
  }
  void placeStages();
  void takeSlots(const PipelineProblem& problem);
  void takeCosts(const PipelineProblem& problem);
  void takeBytes(const PipelineProblem& problem);

  std::vector<std::int32_t> device_;
  std::vector<std::int32_t> slot_;
  std::vector<std::int32_t> position_;
  std::vector<std::vector<std::int32_t>> stagesOfSlot_;
  std::vector<std::vector<std::int32_t>> stagesOfDevice_;
  std::vector<StageCost> costs_;
  std::vector<StageBytes> bytes_;
  std::vector<std::int64_t> byteCap_;
  std::vector<WorkKind> kinds_;
  std::int64_t transferCost_ = 0;
  std::int32_t usedDevices_ = 0;
  std::int32_t mostStages_ = 0;
  std::int32_t microBatches_ = 1;
  bool training_ = true;
  bool split_ = false;
};

}  // namespace sluice::schedule
