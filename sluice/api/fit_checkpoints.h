// FitSaver: saves the checkpoints of a training loop, by steps and by time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "sluice/api/checkpoint.h"
#include "sluice/api/fit.h"

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
  void save();

  void onStep(const Progress& progress) override;
  void onFitEnd(const Progress& progress) override;

 private:
  bool isDue() const;

  const Model& model_;
  const DataLoader& loader_;
  FitCheckpoints settings_;
  CheckpointFolder folder_;
  std::int64_t unsaved_ = 0;  // steps
  double saved_ = 0;          // when the newest one was written, or the loop began
};

}  // namespace sluice
