// The user's settings for where a model keeps its tensors:
//
//   options.tensorLocations.setOptimizerLocation(TensorLocationSettings().useOnChipStorage(false));
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "sluice/api/freezable.h"
#include "sluice/parallel/tensor_locations.h"

#pragma GCC visibility push(default)

namespace sluice {

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

}  // namespace sluice

#pragma GCC visibility pop
