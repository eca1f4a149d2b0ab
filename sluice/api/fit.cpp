#include "sluice/api/fit.h"

#include <algorithm>
#include <chrono>

#include "sluice/api/progress_bar.h"
#include "sluice/base/error.h"

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

/// One training: its epochs, what they measured, and where they stopped.
class Fitting {
 public:
  Fitting(Model& model, DataLoader& loader, const FitOptions& options)
      : model_(model),
        loader_(loader),
        options_(options),
        measure_(options.metrics ? options.metrics : lossOnly),
        stop_(options.stopOnInterrupt) {
    if (options.progress && std::ranges::none_of(options.callbacks, isProgressBar)) {
      bar_ = progressBar();
    }
    progress_.epochs = options.epochs;
    progress_.steps = loader.hasLength() ? loader.length() : 0;
  }

  FitResult run() {
    for (progress_.epoch = options_.firstEpoch;
         progress_.epoch < options_.epochs && stop_.seen() == 0;
         ++progress_.epoch) {
      runEpoch();
    }
    tell(&Callback::onFitEnd);
    result_.signal = stop_.seen();
    result_.interrupted = result_.signal != 0;
    return std::move(result_);
  }

 private:
  using Event = void (Callback::*)(const Progress&);

  void tell(Event event) {
    if (bar_) {
      ((*bar_).*event)(progress_);
    }
    for (const auto& callback : options_.callbacks) {
      ((*callback).*event)(progress_);
    }
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
    if (whole && options_.validate && stop_.seen() == 0) {
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
    while (stop_.seen() == 0) {
      const std::optional<Batch> batch = loader_.next();
      if (!batch) {
        return true;
      }
      const std::vector<HostTensor> outputs = model_.run(*batch);
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
  std::unique_ptr<Callback> bar_;  // null: none, or among the callbacks
  Progress progress_;
  std::chrono::steady_clock::time_point start_;
  FitResult result_;
};

}  // namespace

FitResult fit(Model& model, DataLoader& loader, const FitOptions& options) {
  if (options.firstEpoch < 0) {
    raise<InvalidArgument>("fit: epochs count from 0, got a firstEpoch of {}", options.firstEpoch);
  }
  if (loader.hasLength() && loader.length() == 0) {
    raise<InvalidArgument>(
        "fit: the loader delivers no batch: a call takes {} samples and there are {}; lower the "
        "batch "
        "size, gradientAccumulation or deviceIterations, or use LastBatch::Exact",
        loader.combinedBatchSize(),
        loader.samples());
  }
  return Fitting(model, loader, options).run();
}

}  // namespace sluice
