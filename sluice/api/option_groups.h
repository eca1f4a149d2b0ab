// The groups of Options: training, precision, jit, distributed. Like Options itself, each has
// setters that chain; a group is frozen together with its Options.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/api/option_types.h"
#include "sluice/optim/gradient_options.h"
#include "sluice/parallel/strategy.h"
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice {

// Freezable: what all groups of Options have in common.

/// Settings that can be frozen. A copy is not frozen; assigning to a frozen object throws.
class Freezable {
 public:
  bool isFrozen() const { return frozen_; }

 protected:
  Freezable() = default;
  ~Freezable() = default;
  Freezable(const Freezable& /*other*/) {}
  Freezable& operator=(const Freezable& other);
  void requireUnfrozen() const;
  void setFrozen() const { frozen_ = true; }

 private:
  // Code that reads options freezes them first, so that a later change cannot go unnoticed.
  mutable bool frozen_ = false;
};

// The user's settings for where a model keeps its tensors:
//
//   options.tensorLocations.setOptimizerLocation(TensorLocationSettings().useOnChipStorage(false));

/// The settings for one class of tensors. Setters chain and throw InvalidArgument for values that
/// make no sense.
class TensorLocationSettings {
 public:
  /// True: on the devices; false: in remote memory. Not set: on the devices, but under phased
  /// execution in remote memory.
  TensorLocationSettings& useOnChipStorage(std::optional<bool> on);
  /// Smaller tensors stay on the devices.
  TensorLocationSettings& minElementsForOffChip(std::int64_t count);
  /// Each replica keeps only a part of every tensor. Ignored if there is only one replica.
  TensorLocationSettings& useReplicatedTensorSharding(bool on);
  TensorLocationSettings& minElementsForReplicatedTensorSharding(std::int64_t count);
  /// Whether tiles that only move data are used, on devices that have tiles; no device of this
  /// build has.
  TensorLocationSettings& useIOTilesToLoad(bool on);
  TensorLocationSettings& useIOTilesToStore(bool on);

  const parallel::TensorLocation& values() const { return values_; }
  /// The settings as code: TensorLocationSettings().useOnChipStorage(false)
  std::string str() const;
  bool operator==(const TensorLocationSettings&) const = default;

 private:
  parallel::TensorLocation values_;
};

class TensorLocationOptions : public Freezable {
 public:
  /// Says where activations are between the passes of a stage. Without phases, training refuses
  /// off-chip activations if no stage holds those of more than two micro-batches.
  TensorLocationOptions& setActivationLocation(const TensorLocationSettings& settings);
  TensorLocationOptions& setWeightLocation(const TensorLocationSettings& settings);
  /// Optimizer state without the weights' own values; combined SGD keeps none.
  TensorLocationOptions& setOptimizerLocation(const TensorLocationSettings& settings);
  /// Accumulators add up gradients over micro-batches. Replicas that share accumulators add up
  /// their gradients in every micro-batch.
  TensorLocationOptions& setAccumulatorLocation(const TensorLocationSettings& settings);
  /// Says where one tensor is, whatever its class and size say. The name is that of a variable or,
  /// for an activation, of its op. A model that has no tensor with this name refuses it.
  TensorLocationOptions& setTensorLocation(std::string name, bool onChip);
  /// Tiles of a device that only move data: an even number from 32 to 192, or 0 for none.
  TensorLocationOptions& numIOTiles(std::int64_t count);

  const TensorLocationSettings& activation() const { return activation_; }
  const TensorLocationSettings& weight() const { return weight_; }
  const TensorLocationSettings& optimizer() const { return optimizer_; }
  const TensorLocationSettings& accumulator() const { return accumulator_; }
  const std::map<std::string, bool, std::less<>>& tensors() const { return tensors_; }
  std::int32_t numIOTiles() const { return ioTiles_; }
  parallel::LocationPlan plan() const;

 private:
  friend class Options;
  TensorLocationOptions& set(TensorLocationSettings& field, const TensorLocationSettings& value) {
    requireUnfrozen();
    field = value;
    return *this;
  }

  TensorLocationSettings activation_;
  TensorLocationSettings weight_;
  TensorLocationSettings optimizer_;
  TensorLocationSettings accumulator_;
  std::map<std::string, bool, std::less<>> tensors_;
  std::int32_t ioTiles_ = 0;
};

// PopartOptions: options by PopART's names, the group that PopTorch calls _Popart. It has no values
// of its own. Every name stands for a setter of Options, so what is set here is printed, copied and
// frozen with the other options.
//
//   options.popart().set("accumulationFactor", 4).set("autoRecomputation", "Pipeline");

class Options;

namespace detail {

/// The text in quotes, as in a file of options.
std::string quotedText(std::string_view text);
std::string realText(double number);

template <class T>
concept NamedEnumerator = std::is_enum_v<T> && requires(T value) {
  { name(value) } -> std::convertible_to<std::string_view>;
};

/// A value for popart().set, written as in a file of options.
template <class T>
requires(std::is_arithmetic_v<T> || NamedEnumerator<T> ||
         std::is_convertible_v<const T&, std::string_view>) std::string
    argumentText(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return realText(static_cast<double>(value));
  } else if constexpr (std::is_enum_v<T>) {
    return quotedText(name(value));
  } else {
    return quotedText(value);
  }
}

template <class T>
std::string argumentText(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) {
    text += (text.size() > 1 ? ", " : "") + argumentText(value);
  }
  return text + "]";
}

}  // namespace detail

/// Sets options by PopART's names. The Options must live as long as this object.
class PopartOptions {
 public:
  explicit PopartOptions(Options& options) : options_(&options) {}

  /// Sets the option with this name in PopART, or calls any setter of Options with one argument. A
  /// value is a truth value, a number, a text, an enumerator (or its name, or its number in
  /// PopART), or a list of these. Throws InvalidArgument for a value of another type, and for an
  /// unknown name; the message then proposes similar names. An error leaves the options unchanged.
  template <class T>
  PopartOptions& set(std::string_view name, const T& value) {
    return setText(name, detail::argumentText(value));
  }

 private:
  PopartOptions& setText(std::string_view name, const std::string& value);

  Options* options_;
};

/// Settings that matter only when training.
class TrainingOptions : public Freezable {
 public:
  /// Micro-batches per weight update.
  TrainingOptions& gradientAccumulation(std::int64_t count);
  /// How gradients are reduced, over micro-batches and replicas alike.
  TrainingOptions& accumulationAndReplicationReductionType(Reduction reduction) {
    return set(reduction_, reduction);
  }
  TrainingOptions& accumulationReduction(Reduction reduction) {
    return accumulationAndReplicationReductionType(reduction);
  }
  /// How gradients are reduced over replicas only; not set: in the same way as over micro-batches.
  TrainingOptions& replicationReductionType(std::optional<Reduction> reduction) {
    return set(replicationReduction_, reduction);
  }
  /// How a mean is computed. If this is not set, accumulators in float16 use the running mean.
  TrainingOptions& setMeanAccumulationAndReplicationReductionStrategy(
      MeanReductionStrategy strategy) {
    return set(meanStrategy_, std::optional(strategy));
  }
  /// Multiplies the optimizer's loss scaling by a factor that adapts to the size of the float16
  /// gradients. An update whose gradients are not finite is skipped. The settings say which
  /// gradients are watched and which elements count as large. Throws InvalidArgument for settings
  /// that make no sense.
  TrainingOptions& setAutomaticLossScaling(bool on, optim::LossScalingOptions settings = {}) {
    optim::requireValid(settings);
    return set(automaticLossScaling_, on ? std::optional(std::move(settings)) : std::nullopt);
  }
  /// Logs statistics of every weight's gradient as the update sees it: the norm, the largest
  /// magnitude, and the number of elements that are not finite. It does so at every `period`-th
  /// update, starting with the first; 0 switches it off. Throws InvalidArgument for a negative
  /// period.
  TrainingOptions& logGradientStatistics(std::int64_t period);
  /// A hint to planners that spread convolutions over the tiles of a device. Changes no result; no
  /// device of this build has tiles.
  TrainingOptions& setConvolutionDithering(bool on) { return set(convolutionDithering_, on); }

  std::int32_t gradientAccumulation() const { return gradientAccumulation_; }
  Reduction accumulationAndReplicationReductionType() const { return reduction_; }
  Reduction accumulationReduction() const { return reduction_; }
  std::optional<Reduction> replicationReductionType() const { return replicationReduction_; }
  MeanReductionStrategy meanReductionStrategy() const {
    return meanStrategy_.value_or(MeanReductionStrategy::Post);
  }
  std::optional<MeanReductionStrategy> givenMeanReductionStrategy() const { return meanStrategy_; }
  const std::optional<optim::LossScalingOptions>& automaticLossScaling() const {
    return automaticLossScaling_;
  }
  std::int64_t gradientStatisticsPeriod() const { return gradientStatisticsPeriod_; }
  bool convolutionDithering() const { return convolutionDithering_; }

 private:
  friend class Options;
  template <class T>
  TrainingOptions& set(T& field, T value) {
    requireUnfrozen();
    field = std::move(value);
    return *this;
  }

  std::int32_t gradientAccumulation_ = 1;
  Reduction reduction_ = Reduction::Mean;
  std::optional<Reduction> replicationReduction_;
  std::optional<MeanReductionStrategy> meanStrategy_;
  std::optional<optim::LossScalingOptions> automaticLossScaling_;
  std::int64_t gradientStatisticsPeriod_ = 0;
  bool convolutionDithering_ = false;
};

/// Types and rounding (docs/precision.md).
class PrecisionOptions : public Freezable {
 public:
  /// If false, every request for autocast is ignored.
  PrecisionOptions& autocastEnabled(bool on) { return set(traced_.autocastEnabled, on); }
  /// Says which functions autocast runs in which type. Throws InvalidArgument for an unknown name.
  PrecisionOptions& autocastPolicy(Policy policy);
  /// Says how operands are cast when a function gets both float16 and float32.
  PrecisionOptions& halfFloatCasting(HalfFloatCasting casting) {
    return set(traced_.halfFloatCasting, casting);
  }
  /// If false, batch norm averages its statistics in the type of its input.
  PrecisionOptions& runningStatisticsAlwaysFloat(bool on) {
    return set(traced_.runningStatisticsAlwaysFloat, on);
  }
  /// New values of float16 and bfloat16 weights are rounded up or down at random, so that they are
  /// right on average.
  PrecisionOptions& enableStochasticRounding(bool on) { return set(stochasticRounding_, on); }
  /// Ends a step with an error at the first op that makes a NaN or an infinity from finite numbers.
  PrecisionOptions& enableFloatingPointExceptions(bool on) {
    return set(floatingPointExceptions_, on);
  }
  /// The type in which matrix products and convolutions of float16 may accumulate. F16 is a hint:
  /// the devices of this build always accumulate in float32. Throws InvalidArgument unless it is
  /// F32 or F16.
  PrecisionOptions& setPartialsType(DType dtype);

  bool autocastEnabled() const { return traced_.autocastEnabled; }
  const Policy& autocastPolicy() const { return traced_.autocastPolicy; }
  HalfFloatCasting halfFloatCasting() const { return traced_.halfFloatCasting; }
  bool runningStatisticsAlwaysFloat() const { return traced_.runningStatisticsAlwaysFloat; }
  bool stochasticRounding() const { return stochasticRounding_; }
  bool floatingPointExceptions() const { return floatingPointExceptions_; }
  DType partialsType() const { return partialsType_; }
  /// The settings that tracing reads.
  const nn::PrecisionSettings& traced() const { return traced_; }

 private:
  friend class Options;
  template <class T>
  PrecisionOptions& set(T& field, T value) {
    requireUnfrozen();
    field = std::move(value);
    return *this;
  }

  nn::PrecisionSettings traced_;
  bool stochasticRounding_ = false;
  bool floatingPointExceptions_ = false;
  DType partialsType_ = DType::F32;
};

/// How forward becomes a graph.
class JitOptions : public Freezable {
 public:
  /// Forward is always traced: models refuse false.
  JitOptions& traceModel(bool on);
  bool traceModel() const { return traceModel_; }

 private:
  friend class Options;

  bool traceModel_ = true;
};

/// Which of several processes this one is, and how they share a model. By default mpirun's
/// environment variables say the former.
class DistributedOptions : public Freezable {
 public:
  /// Throws InvalidArgument unless 0 <= id < processes.
  DistributedOptions& configureProcessId(std::int64_t id, std::int64_t processes);
  /// The environment variables that hold the number of processes and the id of this one. Throws
  /// InvalidArgument if only one of them is set or one is not a number.
  DistributedOptions& setEnvVarNames(std::string processesName, std::string idName);
  /// Makes this the only process, whatever the environment says.
  DistributedOptions& disable();
  /// Off: every process has replicationFactor replicas of its own and is called with their data.
  /// On: replicationFactor counts the replicas of all processes, which share them and, if there are
  /// fewer of them than processes, the devices of each; all processes are called with the same data
  /// and return all results.
  DistributedOptions& shareModel(bool on);
  bool shareModel() const { return shareModel_; }

  std::int32_t numProcesses() const { return processes_; }
  std::int32_t processId() const { return id_; }
  /// The number of replicas of all processes, and the first replica of this one, given the number
  /// of replicas per process.
  std::int64_t globalReplicationFactor(std::int64_t local) const { return processes_ * local; }
  std::int64_t firstReplica(std::int64_t local) const { return id_ * local; }
  const std::string& processesName() const { return processesName_; }
  const std::string& idName() const { return idName_; }

 private:
  friend class Options;

  std::int32_t processes_ = 1;
  std::int32_t id_ = 0;
  bool shareModel_ = false;
  std::string processesName_ = "OMPI_COMM_WORLD_SIZE";
  std::string idName_ = "OMPI_COMM_WORLD_RANK";
};

}  // namespace sluice

#pragma GCC visibility pop
