// The memory that one device of the list scheduler holds; it decides whether another piece may
// start. Internal to the module.
//
// The scheduler cannot get stuck. Let m be the oldest micro-batch that still has backward work on
// the device. Beside the activations of later micro-batches, the device keeps room for one whole
// micro-batch, so m can always continue here. Therefore the oldest micro-batch of the whole
// pipeline can continue on every device. Weight parts wait for nothing, so the bytes they hold can
// be freed whenever they are needed.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sluice/schedule/checked_problem.h"
#include "sluice/schedule/list_scheduler.h"

namespace sluice::schedule {

class DeviceMemory {
 public:
  /// Throws InvalidArgument if one micro-batch does not fit.
  DeviceMemory(const CheckedProblem& checked, std::int32_t device, const ListPolicy& policy);

  /// The oldest micro-batch with unfinished backward (inference: forward) work on the device.
  std::int32_t oldest() const { return oldest_; }
  /// The stage of the oldest micro-batch's next forward piece; -1 if all have started.
  std::int32_t oldestNextForward() const;

  /// Whether a forward piece respects the limits and leaves enough room for the oldest micro-batch.
  bool admits(const Piece& forward) const;
  /// Whether the bytes that a piece takes at its start are free now.
  bool fits(const Piece& piece) const;
  /// Whether the stash limit is reached, so that a weight part would make room for a forward piece.
  bool stashIsFull() const { return stashed_ >= stashLimit_; }

  void start(const Piece& piece);
  void finish(const Piece& piece);

 private:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 4;
  std::int64_t takes(const Piece& piece) const;
  void finishBackward(const Piece& piece);
  void advanceOldest();
  std::size_t position(const Piece& piece) const {
    return static_cast<std::size_t>(checked_.positionOnDevice(piece.stage));
  }

  const CheckedProblem& checked_;
  const std::vector<std::int32_t>& stages_;
  bool tightReserve_;
  std::int64_t byteCap_ = kNoLimit;
  std::int64_t forwardLimit_ = kNoLimit;
  std::int64_t stashLimit_ = kNoLimit;
  std::int64_t microBatchPeak_ = 0;   ///< fewest bytes in which one micro-batch can run alone
  std::int64_t microBatchBytes_ = 0;  ///< activations of one micro-batch
  std::int64_t held_ = 0;
  std::int64_t laterActivations_ = 0;  ///< held by micro-batches after the oldest
  std::int64_t oldestHeld_ = 0;        ///< activations held by the oldest micro-batch
  std::int64_t oldestToCome_ = 0;      ///< activations of its forward pieces that have not started
  std::int64_t forwards_ = 0;
  std::int64_t stashed_ = 0;
  std::int32_t oldest_ = 0;
  std::size_t oldestStarted_ = 0;  ///< forward pieces of the oldest micro-batch that have started
  std::vector<std::int32_t> started_;   ///< per stage of the device: forward pieces started
  std::vector<std::int32_t> released_;  ///< per stage of the device: backward pieces ended
  std::vector<std::int32_t> ended_;     ///< per micro-batch: backward pieces ended
};

}  // namespace sluice::schedule
