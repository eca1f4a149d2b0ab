// fit: a training loop over a loader, with callbacks. It provides progress, a CSV log, validation,
// and an orderly end on Ctrl-C or SIGTERM; a hand-written loop over model(...) could do the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/api/data_loader.h"
#include "sluice/api/model.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice {

// StopSignals: turns Ctrl-C, SIGTERM and SIGHUP into requests that a loop checks between its steps,
// so that it can end cleanly. `fit` uses it; a loop of your own uses it like this:
//
//   const StopSignals stop;
//   for (... && stop.seen() == 0; ...) { model.run(...); }
//   return stop.seen() == 0 ? 0 : 128 + stop.seen();

/// Catches these signals for the whole process while it lives; there may be at most one at a time.
/// It does not catch a SIGHUP that the program ignores, as under nohup. The first signal is noted;
/// a second one ends the program as if there were no StopSignals.
class [[nodiscard]] StopSignals {
 public:
  /// An inactive object catches nothing.
  [[nodiscard]] explicit StopSignals(bool active = true);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// SIGINT, SIGTERM, SIGHUP, or 0 as long as there was no signal.
  int seen() const;

 private:
  using Handler = void (*)(int);

  bool active_;
  Handler previousInterrupt_ = nullptr;
  Handler previousTerminate_ = nullptr;
};

// Small measures of a model's outputs.

/// The percentage of rows of `predictions` [n, classes] whose largest entry is at the label. If
/// there are more than n labels, the last n are used, because an output mode that returns fewer
/// predictions returns the last ones. Throws InvalidArgument for shapes that do not fit.
double accuracy(const HostTensor& predictions, const HostTensor& labels);

/// The mean of all elements.
double meanOf(const HostTensor& tensor);

/// Named numbers in the order they are shown.
using Metrics = std::vector<std::pair<std::string, double>>;

struct Progress {
  std::int64_t epoch = 0;  ///< counted from 0 over the whole training
  std::int64_t epochs = 0;
  std::int64_t step = 0;       ///< steps of the epoch that have finished
  std::int64_t steps = 0;      ///< 0 for a stream, whose length is not known
  std::int64_t firstStep = 0;  ///< above 0: an earlier run made the steps before this one
  std::int64_t updates = 0;    ///< weight updates since the model was made
  double seconds = 0;          ///< since the epoch began
  Metrics metrics;             ///< the step's; at the end of an epoch, means over its steps
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void onEpochBegin(const Progress&) {}
  virtual void onStep(const Progress&) {}
  virtual void onEpochEnd(const Progress&) {}
  /// Called instead of onEpochEnd if a signal stopped training in the middle of the epoch.
  virtual void onEpochCut(const Progress&) {}
  /// Called when training has finished or was interrupted, but not when it ends with an exception.
  virtual void onFitEnd(const Progress&) {}
};

/// Shows "Epoch 1/3", then a bar with the metrics. On a terminal the bar is redrawn in place and
/// never wider than the terminal; elsewhere there is one plain line per epoch.
std::unique_ptr<Callback> progressBar();

/// Writes a line per step: epoch, step, updates, seconds, metrics. Until training ends or the
/// callback is destroyed, the file's name ends with ".part". A run that is continued keeps the
/// lines of the steps before it; another one begins the file anew. Throws FileError.
std::unique_ptr<Callback> csvLog(const std::string& path);

/// The checkpoints that fit saves: the newest ones of its run in a folder (checkpoint.h).
struct FitCheckpoints {
  std::filesystem::path folder = {};   ///< empty: none are saved
  std::int64_t everySteps = 0;         ///< steps between two of them; 0: not by steps
  double everySeconds = 0;             ///< seconds between two of them; 0: not by time
  std::int64_t keep = 3;               ///< so many of this run stay
  std::function<double()> clock = {};  ///< seconds; empty: those of the system
  /// Called before each of them; what it throws ends the training with those before.
  std::function<void()> beforeSave = {};
};

struct FitOptions {
  std::int64_t epochs = 1;
  std::int64_t firstEpoch = 0;  ///< for a run that continues: loader.epoch()
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  /// Computes metrics from a step's inputs and outputs; by default "Loss", the mean of the last
  /// output.
  std::function<Metrics(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs)>
      metrics = {};
  /// Called after each epoch; the metrics that it returns are appended to the epoch's metrics.
  std::function<Metrics()> validate = {};
  /// On Ctrl-C, SIGTERM or SIGHUP the step in progress is finished and fit returns. A second signal
  /// ends the program. The callbacks are notified, so that a checkpoint of the last step can be
  /// saved.
  bool stopOnInterrupt = true;
  /// Shows progress and metrics as progressBar does, unless such a bar is among the callbacks.
  bool progress = true;
  /// Saves as often as it says, and at the end. If Options::recovery has an everyN of 0, fit goes
  /// back to the newest one after a RecoverableError and makes the steps since then again; their
  /// metrics and callbacks are not repeated, and the weights have the bits of an undisturbed run.
  /// Whatever everyN is, a checkpoint that cannot be saved, because the disk is full or the state
  /// cannot be read, is tried again as often; the checkpoints before it stay.
  FitCheckpoints checkpoints = {};
  /// Continues the run of this file, or of the newest intact checkpoint of this folder: model and
  /// loader are moved there, and `firstEpoch` is not used. A folder without checkpoints, or the
  /// folder of `checkpoints` if it does not exist yet, begins a new run. Empty: does not resume.
  std::filesystem::path resume = {};
};

struct FitResult {
  std::vector<Metrics> epochs;    ///< means over the steps of each whole epoch, with validation
  bool interrupted = false;       ///< whether a signal stopped training
  int signal = 0;                 ///< SIGINT, SIGTERM or SIGHUP; 0: none
  std::filesystem::path resumed;  ///< the checkpoint that it continued from; empty: a new run
};

/// Begins at the loader's position: the epoch of a loader that was interrupted or restored is
/// finished first. Throws InvalidArgument for a negative firstEpoch, and for a loader that delivers
/// nothing: too few samples for one batch, or a stream that ends before its first one; also if
/// several processes would make different numbers of steps; FileError for checkpoints that cannot
/// be read or written.
FitResult fit(Model& model, DataLoader& loader, const FitOptions& options);

}  // namespace sluice

#pragma GCC visibility pop
