#include "sluice/api/fit.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "sluice/api/agreement.h"
#include "sluice/api/fit_checkpoints.h"
#include "sluice/api/progress_bar.h"
#include "sluice/api/step_recovery.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/recoverable_error.h"

namespace sluice {
namespace {

Metrics lossOnly(std::span<const HostTensor>, std::span<const HostTensor> outputs) {
  return {{"Loss", meanOf(outputs.back())}};
}

void addTo(Metrics& sums, const Metrics& metrics) {
  if (sums.empty()) {
    sums = metrics;
    return;
  }
  for (std::size_t i = 0; i < sums.size() && i < metrics.size(); ++i) {
    sums[i].second += metrics[i].second;
  }
}

Metrics meansOf(Metrics sums, std::int64_t count) {
  for (auto& [name, value] : sums) {
    value /= static_cast<double>(std::max<std::int64_t>(count, 1));
  }
  return sums;
}

/// Moves model and loader to where FitOptions::resume says; returns the file, empty: a new run.
std::filesystem::path resume(Model& model, DataLoader& loader, const FitOptions& options) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  if (fs::is_directory(options.resume, unknown)) {
    const std::optional<Resumed> found = CheckpointFolder(options.resume).resume(model, loader);
    return found ? found->path : fs::path();
  }
  if (!fs::exists(options.resume, unknown) && options.resume == options.checkpoints.folder) {
    return {};
  }
  return resumeFrom(options.resume, model, loader).path;
}

/// One training: its epochs, what they measured, and where they stopped.
class Fitting {
 public:
  Fitting(Model& model, DataLoader& loader, const FitOptions& options)
      : model_(model),
        loader_(loader),
        options_(options),
        measure_(options.metrics ? options.metrics : lossOnly),
        stop_(options.stopOnInterrupt),
        stopping_(model, "whether fit was stopped by a signal") {
    if (options.progress && std::ranges::none_of(options.callbacks, isProgressBar)) {
      bar_ = progressBar();
    }
    progress_.epochs = options.epochs;
    progress_.steps = loader.hasLength() ? loader.length() : 0;
    if (!options.checkpoints.folder.empty()) {
      saver_.emplace(model, loader, options.checkpoints);
      saver_->setRepair([this] { goBack(); });
      goesBack_ = recovery().retries > 0 && recovery().every == 0;
    }
  }

  FitResult run() {
    requireSame("number of steps in an epoch", progress_.steps);
    requireBatches();  // after the comparison, which the others wait for
    if (!options_.resume.empty()) {
      result_.resumed = resume(model_, loader_, options_);
    }
    const std::int64_t first = result_.resumed.empty() ? options_.firstEpoch : loader_.epoch();
    requireSame("number of epochs", options_.epochs);
    requireSame("first epoch", first);
    requireSame("loader's first step in the epoch", loader_.position());
    if (goesBack_ && !resumesOwn()) {
      saver_->save();
    }
    for (progress_.epoch = first; progress_.epoch < options_.epochs && stopped() == 0;
         ++progress_.epoch) {
      runEpoch();
    }
    if (stopped_ == 0) {
      stopped_ = static_cast<int>(stopping_.largestNow(stop_.seen()));
    }
    tell(&Callback::onFitEnd);
    result_.signal = stopped();
    result_.interrupted = result_.signal != 0;
    return std::move(result_);
  }

 private:
  using Event = void (Callback::*)(const Progress&);

  /// Processes that make other steps would wait for each other in vain, and long.
  void requireSame(std::string_view what, std::int64_t own) const {
    if (stopping_.isAlone()) {
      return;
    }
    const std::string name = fmt::format("the {} of fit", what);
    const std::int64_t largest = model_.largestInAllProcesses(name, own);
    const std::int64_t smallest = -model_.largestInAllProcesses(name, -own);
    if (smallest != largest) {
      raise<InvalidArgument>(
          "fit: the {} is {} in one process and {} in another (here {}): all processes must make "
          "the same steps",
          what,
          smallest,
          largest,
          own);
    }
  }

  void requireBatches() const {
    if (loader_.hasLength() && loader_.length() == 0) {
      raise<InvalidArgument>(
          "fit: the loader delivers no batch: a call takes {} samples and there are {}; lower the "
          "batch size, gradientAccumulation or deviceIterations, or use LastBatch::Exact",
          loader_.combinedBatchSize(),
          loader_.samples());
    }
  }

  void tell(Event event) {
    if (bar_) {
      ((*bar_).*event)(progress_);
    }
    for (const auto& callback : options_.callbacks) {
      ((*callback).*event)(progress_);
    }
    if (saver_) {
      ((*saver_).*event)(progress_);
    }
  }

  /// The signal that ends the training. With several processes: once all of them know of it.
  int stopped() const { return stopping_.isAlone() ? stop_.seen() : stopped_; }
  /// Called once per step.
  bool mayStep() {
    if (stopped_ == 0) {
      stopped_ = static_cast<int>(stopping_.largest(stop_.seen()));
    }
    return stopped() == 0;
  }

  const RecoveryOptions& recovery() const { return model_.options().recovery(); }

  /// Whether the run continues from a checkpoint of the folder that it saves to.
  bool resumesOwn() const {
    return !result_.resumed.empty() && result_.resumed.parent_path() == saver_->folder().folder();
  }

  /// The state is lost at the loader's place: makes it again from the newest checkpoint on.
  void goBack() {
    if (saver_->hasSaved() || resumesOwn()) {
      repeatedTo(loader_.epoch(), loader_.position());
    }
  }

  /// A step; after a recoverable error, once more from the newest checkpoint on.
  std::vector<HostTensor> step(const Batch& batch) {
    const std::int64_t epoch = loader_.epoch();
    const std::int64_t position = loader_.position();
    for (std::int32_t attempt = 0;; ++attempt) {
      try {
        return attempt == 0 ? model_.run(batch) : repeatedTo(epoch, position);
      } catch (const RecoverableError& error) {
        if (!goesBack_) {
          throw;
        }
        if (attempt == recovery().retries) {
          throw UnrecoverableError(fmt::format("{} (after {} retries); {}",
                                               error.message(),
                                               attempt,
                                               whereToLook(model_.writeDiagnostics(error))));
        }
        log::warn("fit", "goes back to its newest checkpoint: {}", error.message());
      }
      waitForRetry(recovery(), attempt, [] {});
    }
  }

  /// Makes the steps since the newest checkpoint again; returns the results of the last one.
  std::vector<HostTensor> repeatedTo(std::int64_t epoch, std::int64_t position) {
    model_.detachFromDevice();  // frees the memory of the devices, which are then loaded anew
    model_.attachToDevice();
    saver_->folder().restore(model_, loader_);
    const std::pair target(epoch, position);
    const auto place = [&] { return std::pair(loader_.epoch(), loader_.position()); };
    std::vector<HostTensor> outputs;
    while (place() != target) {
      const std::optional<Batch> batch = loader_.next();
      if (place() > target) {
        raise<InvalidArgument>(
            "fit: the loader delivers other batches than before the failure: no batch ends at "
            "position {} of epoch {} any more",
            position,
            epoch);
      }
      if (batch) {  // else the next epoch begins
        outputs = model_.run(*batch);
      }
    }
    return outputs;
  }

  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void runEpoch() {
    start_ = std::chrono::steady_clock::now();
    progress_.step = progress_.firstStep = loader_.position();
    progress_.seconds = 0;
    progress_.metrics.clear();
    tell(&Callback::onEpochBegin);
    Metrics sums;
    const bool whole = runSteps(sums);
    if (whole && progress_.step == 0) {
      raise<InvalidArgument>("fit: the stream ended before its first batch of {} samples",
                             loader_.combinedBatchSize());
    }
    progress_.metrics = meansOf(std::move(sums), progress_.step - progress_.firstStep);
    if (whole && options_.validate && stopped() == 0) {
      for (auto& metric : options_.validate()) {
        progress_.metrics.push_back(std::move(metric));
      }
    }
    progress_.seconds = elapsed();
    tell(whole ? &Callback::onEpochEnd : &Callback::onEpochCut);
    if (whole) {
      result_.epochs.push_back(progress_.metrics);
    }
  }

  /// Returns whether it came to the end of the epoch.
  bool runSteps(Metrics& sums) {
    while (mayStep()) {
      const std::optional<Batch> batch = loader_.next();
      if (!batch) {
        return true;
      }
      const std::vector<HostTensor> outputs = step(*batch);
      ++progress_.step;
      progress_.metrics = measure_(batch->tensors, outputs);
      progress_.updates = model_.updates();
      progress_.seconds = elapsed();
      addTo(sums, progress_.metrics);
      tell(&Callback::onStep);
    }
    if (progress_.steps > 0 && loader_.position() == progress_.steps) {
      loader_.next();  // the end of the epoch, which the signal kept from being seen
      return true;
    }
    return false;
  }

  Model& model_;
  DataLoader& loader_;
  const FitOptions& options_;
  std::function<Metrics(std::span<const HostTensor>, std::span<const HostTensor>)> measure_;
  StopSignals stop_;
  Agreement stopping_;
  int stopped_ = 0;
  std::unique_ptr<Callback> bar_;  // null: none, or among the callbacks
  std::optional<FitSaver> saver_;  // not set: no checkpoints
  bool goesBack_ = false;          // to a checkpoint, after a recoverable error
  Progress progress_;
  std::chrono::steady_clock::time_point start_;
  FitResult result_;
};

}  // namespace

FitResult fit(Model& model, DataLoader& loader, const FitOptions& options) {
  if (options.firstEpoch < 0) {
    raise<InvalidArgument>("fit: epochs count from 0, got a firstEpoch of {}", options.firstEpoch);
  }
  if (options.epochs < 0) {
    raise<InvalidArgument>("fit: expected a number of epochs from 0, got {}", options.epochs);
  }
  if (model.optimizer() == nullptr) {
    raise<InvalidArgument>("fit: the model is for inference and has no optimizer");
  }
  return Fitting(model, loader, options).run();
}

}  // namespace sluice
