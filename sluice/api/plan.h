// Plans: ways to run a model on some devices of limited memory. Model::findPlan plans many of them
// with the compiler, simulates each, and reports what it found; nothing is computed.
//
//   options.device("sim@measured").memoryPerDevice("64MiB");
//   PlanReport found = trainingModel(net, options, optim::AdamW(1e-3)).findPlan(types, {.devices =
//   4}); if (found.best) found.best->choice.applyTo(options);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/schedule/pipeline.h"

#pragma GCC visibility push(default)

namespace sluice {

/// The settings in which plans differ.
struct PlanChoice {
  Strategy strategy = PipelinedExecution::automatic(1);
  Recomputation recomputation = Recomputation::None;
  bool optimizerOffChip = false;  ///< its state is in remote memory between its uses
  bool weightsOffChip = false;    ///< and so are weights and accumulators

  void applyTo(Options& options) const;
  /// On one line, for people.
  std::string str() const;
  /// The lines that make a program run this way, for an object `options`.
  std::vector<std::string> cppLines() const;
  std::vector<std::string> pythonLines() const;

  bool operator==(const PlanChoice&) const = default;
};

/// The memory of one device: its state, and what changes hands within a step.
struct PlannedBytes {
  std::size_t state = 0;
  std::size_t transient = 0;
  std::size_t own = 0;  ///< what the kind of device takes for itself

  std::size_t total() const { return state + transient + own; }
  bool operator==(const PlannedBytes&) const = default;
};

/// A choice that was planned and simulated.
struct Plan {
  PlanChoice choice;
  double seconds = 0;                 ///< of a step, in virtual time
  std::vector<double> busy;           ///< by device: seconds in which it computes
  std::vector<PlannedBytes> devices;  ///< those of the compiled program
  std::size_t remoteBytes = 0;        ///< of remote memory
  std::vector<std::vector<schedule::Work>> timeline = {};  ///< by device, in nanoseconds

  std::size_t largestDevice() const;
};

/// How a trial ended.
enum class PlanOutcome : std::uint8_t { Fits, TooLarge, Impossible };

struct TriedPlan {
  PlanChoice choice;
  PlanOutcome outcome = PlanOutcome::Fits;
  double seconds = 0;       ///< TooLarge: if there were room; 0: not known
  std::size_t largest = 0;  ///< bytes of the largest device; 0: not known
  std::string reason = {};  ///< Impossible: why
};

/// What else would help, and what it would give.
struct PlanChange {
  std::string text;
  double seconds = 0;  ///< of a step
};

struct PlanProgress {
  std::size_t tried = 0;
  std::size_t fitting = 0;
  double bestSeconds = 0;  ///< 0: none fits yet
};

struct PlanSettings {
  std::int64_t devices = 1;
  /// No trial begins later than this. The search ends with what it has.
  double seconds = 10;
  /// Also tries plans that do more work than one which fits and is otherwise the same.
  bool exhaustive = false;
  std::function<void(const PlanProgress&)> progress = {};
};

struct PlanReport {
  std::string target;        ///< whose times these are
  std::int64_t devices = 1;  ///< that a plan may use
  std::size_t memoryPerDevice = 0;
  std::int64_t microBatches = 1;  ///< of a step
  bool training = false;
  std::optional<Plan> best;  ///< the fastest of those that fit; none: nothing fits
  /// The seconds of a step if the kernels of the model were shared out evenly among all devices and
  /// nothing ever waited. No plan that was tried is faster.
  double bound = 0;
  std::vector<TriedPlan> tried;  ///< in the order of the search
  bool complete = true;          ///< false: the time was up
  /// If nothing fits: the least memory per device with which a plan was made, and that plan.
  std::optional<std::size_t> smallestBudget = {};
  std::optional<PlanChoice> smallest = {};
  std::vector<PlanChange> changes = {};
};

}  // namespace sluice

#pragma GCC visibility pop
