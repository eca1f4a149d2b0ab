// FitSaver: saves the checkpoints of a training loop, by steps and by time.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "sluice/api/agreement.h"
#include "sluice/api/checkpoint.h"
#include "sluice/api/fit.h"
#include "sluice/base/recoverable_error.h"

namespace sluice {

class FitSaver : public Callback {
 public:
  /// Makes the folder. Throws InvalidArgument for negative numbers and for a time that is not
  /// finite, FileError if there can be no folder. Model and loader must outlive it.
  FitSaver(const Model& model, const DataLoader& loader, const FitCheckpoints& settings);
  FitSaver(const Model& model,
           const DataLoader& loader,
           CheckpointFolder folder,
           const FitCheckpoints& settings);

  const CheckpointFolder& folder() const { return folder_; }
  /// Called before a save is tried again whose state could not be read: brings the state back.
  void setRepair(std::function<void()> repair) { repair_ = std::move(repair); }
  /// Whether it has saved anything.
  bool hasSaved() const { return hasSaved_; }
  /// Tries again as often as Options::recovery says. Throws FileError if the file cannot be
  /// written, and UnrecoverableError, or without recovery RecoverableError, if the state cannot be
  /// read; the checkpoints before it stay as they are.
  void save();

  void onStep(const Progress& progress) override;
  void onFitEnd(const Progress& progress) override;

 private:
  /// Called once per step: processes have clocks of their own.
  bool isDue();
  /// Called while the error is handled. They throw if the save is not tried again.
  void considerRetry(const FileError& error, std::int32_t attempt) const;
  void considerRetry(const RecoverableError& error, std::int32_t attempt) const;

  const Model& model_;
  const DataLoader& loader_;
  Agreement time_;
  FitCheckpoints settings_;
  CheckpointFolder folder_;
  std::function<void()> repair_;  // empty: the state is only read again
  bool hasSaved_ = false;
  std::int64_t unsaved_ = 0;  // steps
  double saved_ = 0;          // when the newest one was written, or the loop began
};

}  // namespace sluice
