#include "sluice/api/fit.h"

#include <chrono>
#include <csignal>

#include "sluice/api/metrics.h"
#include "sluice/base/error.h"

namespace sluice {
namespace {

volatile std::sig_atomic_t interruptSeen = 0;  // NOLINT: a signal handler can reach nothing else

void noteInterrupt(int) {
  interruptSeen = 1;
  std::signal(SIGINT, SIG_DFL);  // the next one ends the program
}

/// Catches Ctrl-C while it lives.
class InterruptGuard {
 public:
  explicit InterruptGuard(bool active) : active_(active) {
    if (active_) {
      interruptSeen = 0;
      previous_ = std::signal(SIGINT, noteInterrupt);
    }
  }
  ~InterruptGuard() {
    if (active_) {
      std::signal(SIGINT, previous_);
    }
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  bool seen() const { return active_ && interruptSeen != 0; }

 private:
  bool active_;
  void (*previous_)(int) = SIG_DFL;
};

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

}  // namespace

FitResult fit(Model& model, DataLoader& loader, const FitOptions& options) {
  const auto measure = options.metrics ? options.metrics : lossOnly;
  const InterruptGuard interrupt(options.stopOnInterrupt);
  FitResult result;
  Progress progress{.epochs = options.epochs, .steps = loader.hasLength() ? loader.length() : 0};
  if (options.firstEpoch < 0) {
    raise<InvalidArgument>("fit: epochs count from 0, got a firstEpoch of {}", options.firstEpoch);
  }
  for (progress.epoch = options.firstEpoch; progress.epoch < options.epochs && !interrupt.seen();
       ++progress.epoch) {
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    progress.step = loader.position();
    progress.metrics.clear();
    for (const auto& callback : options.callbacks) {
      callback->onEpochBegin(progress);
    }
    Metrics sums;
    const std::int64_t first = progress.step;
    while (!interrupt.seen()) {
      const std::optional<Batch> batch = loader.next();
      if (!batch) {
        break;
      }
      const std::vector<HostTensor> outputs = model.run(*batch);
      ++progress.step;
      progress.metrics = measure(batch->tensors, outputs);
      progress.updates = model.updates();
      progress.seconds = elapsed();
      addTo(sums, progress.metrics);
      for (const auto& callback : options.callbacks) {
        callback->onStep(progress);
      }
    }
    if (progress.steps > 0 && loader.position() == progress.steps) {
      loader.next();  // the end of the epoch, which an interrupt kept from being seen
    }
    progress.metrics = meansOf(std::move(sums), progress.step - first);
    if (options.validate && !interrupt.seen()) {
      for (auto& metric : options.validate()) {
        progress.metrics.push_back(std::move(metric));
      }
    }
    progress.seconds = elapsed();
    for (const auto& callback : options.callbacks) {
      callback->onEpochEnd(progress);
    }
    result.epochs.push_back(progress.metrics);
  }
  for (const auto& callback : options.callbacks) {
    callback->onFitEnd(progress);
  }
  result.interrupted = interrupt.seen();
  return result;
}

}  // namespace sluice
