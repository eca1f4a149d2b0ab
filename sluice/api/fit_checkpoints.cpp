#include "sluice/api/fit_checkpoints.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "sluice/api/step_recovery.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

double secondsOfSystem() {
  using std::chrono::steady_clock;
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
}

const FitCheckpoints& checked(const FitCheckpoints& settings) {
  if (settings.everySteps < 0) {
    raise<InvalidArgument>(
        "checkpoints are saved every {} steps, expected at least 1, or 0: not by steps",
        settings.everySteps);
  }
  if (!(settings.everySeconds >= 0 && std::isfinite(settings.everySeconds))) {
    raise<InvalidArgument>(
        "checkpoints are saved every {} seconds, expected more than 0, or 0: not by time",
        settings.everySeconds);
  }
  return settings;
}

}  // namespace

FitSaver::FitSaver(const Model& model, const DataLoader& loader, const FitCheckpoints& settings)
    : FitSaver(model, loader, CheckpointFolder(settings.folder, settings.keep), settings) {}

FitSaver::FitSaver(const Model& model,
                   const DataLoader& loader,
                   CheckpointFolder folder,
                   const FitCheckpoints& settings)
    : model_(model),
      loader_(loader),
      time_(model, "whether it is time for a checkpoint"),
      settings_(checked(settings)),
      folder_(std::move(folder)) {
  if (!settings_.clock) {
    settings_.clock = secondsOfSystem;
  }
  saved_ = settings_.clock();
}

bool FitSaver::isDue() {
  if (settings_.everySteps > 0 && unsaved_ >= settings_.everySteps) {
    return true;
  }
  return settings_.everySeconds > 0 &&
         time_.largest(settings_.clock() - saved_ >= settings_.everySeconds ? 1 : 0) != 0;
}

void FitSaver::considerRetry(const FileError& error, std::int32_t attempt) const {
  if (attempt == model_.options().recovery().retries) {
    if (attempt == 0) {
      throw;
    }
    raise<FileError>("{} (after {} retries); the checkpoints that were saved before are intact",
                     error.message(),
                     attempt);
  }
  log::warn("fit", "a checkpoint is not saved and tried again: {}", error.message());
}

void FitSaver::considerRetry(const RecoverableError& error, std::int32_t attempt) const {
  const std::int32_t retries = model_.options().recovery().retries;
  if (retries == 0) {
    throw;
  }
  if (attempt == retries || error.recoveryAction() == RecoveryAction::FullReset) {
    throw UnrecoverableError(fmt::format(
        "{} (while a checkpoint was saved, after {} retries); the checkpoints that were "
        "saved before are intact; {}",
        error.message(),
        attempt,
        whereToLook(model_.writeDiagnostics(error))));
  }
  log::warn("fit", "a checkpoint is not saved, its state is brought back: {}", error.message());
}

void FitSaver::save() {
  if (settings_.beforeSave) {
    settings_.beforeSave();
  }
  bool isBroken = false;  // the state, as far as is known
  for (std::int32_t attempt = 0;; ++attempt) {
    try {
      if (isBroken && repair_) {
        repair_();
      }
      isBroken = false;
      folder_.save(model_, loader_.state());
      break;
    } catch (const FileError& error) {
      considerRetry(error, attempt);
    } catch (const RecoverableError& error) {
      considerRetry(error, attempt);
      isBroken = true;
    }
    waitForRetry(model_.options().recovery(), attempt, [] {});
  }
  hasSaved_ = true;
  unsaved_ = 0;
  saved_ = settings_.clock();
}

void FitSaver::onStep(const Progress& /*progress*/) {
  ++unsaved_;
  if (isDue()) {
    save();
  }
}

void FitSaver::onFitEnd(const Progress& /*progress*/) {
  if (unsaved_ > 0) {
    save();
  }
}

std::unique_ptr<Callback> checkpointing(const Model& model,
                                        const DataLoader& loader,
                                        CheckpointFolder folder,
                                        std::int64_t every) {
  if (every < 1) {
    raise<InvalidArgument>("checkpoints are saved every {} steps, expected at least 1", every);
  }
  return std::make_unique<FitSaver>(
      model, loader, std::move(folder), FitCheckpoints{.everySteps = every});
}

}  // namespace sluice
