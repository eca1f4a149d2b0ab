// fit: a training loop over a loader with callbacks. It adds nothing that a hand-written loop over
// model(...) could not do: progress, a CSV log, validation, and an orderly end on Ctrl-C or
// SIGTERM.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/api/data_loader.h"
#include "sluice/api/model.h"

namespace sluice {

/// Named numbers in the order they are shown.
using Metrics = std::vector<std::pair<std::string, double>>;

struct Progress {
  std::int64_t epoch = 0;  ///< of this training, from 0
  std::int64_t epochs = 0;
  std::int64_t step = 0;       ///< finished steps of the epoch
  std::int64_t steps = 0;      ///< 0: a stream, whose length is not known
  std::int64_t firstStep = 0;  ///< above 0: the steps before were those of an earlier run
  std::int64_t updates = 0;    ///< weight updates since the model was made
  double seconds = 0;          ///< since the epoch began
  Metrics metrics;             ///< of this step; at the end of an epoch, means over its steps
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void onEpochBegin(const Progress&) {}
  virtual void onStep(const Progress&) {}
  virtual void onEpochEnd(const Progress&) {}
  /// Instead of onEpochEnd if a signal stopped training in the middle of the epoch.
  virtual void onEpochCut(const Progress&) {}
  /// Training is over, finished or interrupted; not called when it ends by an exception.
  virtual void onFitEnd(const Progress&) {}
};

/// "Epoch 1/3", then a bar with the metrics: redrawn in place on a terminal, in one line of its
/// width; elsewhere a plain line per epoch.
std::unique_ptr<Callback> progressBar();

/// A line per step: epoch, step, updates, seconds, metrics. The file has the name with ".part"
/// until training ends (or the callback is destroyed); throws FileError.
std::unique_ptr<Callback> csvLog(const std::string& path);

struct FitOptions {
  std::int64_t epochs = 1;
  std::int64_t firstEpoch = 0;  ///< of a run that goes on: loader.epoch()
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  /// From a step's inputs and outputs; by default the mean of the last output as "Loss".
  std::function<Metrics(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs)>
      metrics = {};
  /// Called after each epoch; what it returns is appended to the epoch's metrics.
  std::function<Metrics()> validate = {};
  /// Ctrl-C or SIGTERM finish the step in progress, then fit returns; a second one ends the
  /// program. The callbacks are told, so a checkpoint of the last step is saved.
  bool stopOnInterrupt = true;
};

struct FitResult {
  std::vector<Metrics> epochs;  ///< means over the steps of each whole epoch, with validation
  bool interrupted = false;     ///< by a signal
  int signal = 0;               ///< which one: SIGINT, SIGTERM; 0: none
};

/// Begins where the loader is: a loader that was interrupted or restored first ends its epoch.
/// Throws InvalidArgument for a negative firstEpoch.
FitResult fit(Model& model, DataLoader& loader, const FitOptions& options);

}  // namespace sluice
