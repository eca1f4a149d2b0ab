// Where a model keeps its tensors, as users say it:
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

namespace sluice {

/// Of one class of tensors. Setters chain and throw InvalidArgument for what makes no sense.
class TensorLocationSettings {
 public:
  /// False: in remote memory. Not set: on the devices, or off them under phased execution.
  TensorLocationSettings& useOnChipStorage(std::optional<bool> on);
  /// Smaller tensors stay on the devices.
  TensorLocationSettings& minElementsForOffChip(std::int64_t count);
  /// Each replica keeps a part of every tensor. Ignored without replicas.
  TensorLocationSettings& useReplicatedTensorSharding(bool on);
  TensorLocationSettings& minElementsForReplicatedTensorSharding(std::int64_t count);
  /// Tiles that only move data, on devices that have tiles; no device of this build does.
  TensorLocationSettings& useIOTilesToLoad(bool on);
  TensorLocationSettings& useIOTilesToStore(bool on);

  const parallel::TensorLocation& values() const { return values_; }
  /// TensorLocationSettings().useOnChipStorage(false)
  std::string str() const;
  bool operator==(const TensorLocationSettings&) const = default;

 private:
  parallel::TensorLocation values_;
};

class TensorLocationOptions : public Freezable {
 public:
  TensorLocationOptions& setActivationLocation(const TensorLocationSettings& settings);
  TensorLocationOptions& setWeightLocation(const TensorLocationSettings& settings);
  /// Optimizer state without the weights' own values; combined SGD keeps none.
  TensorLocationOptions& setOptimizerLocation(const TensorLocationSettings& settings);
  TensorLocationOptions& setAccumulatorLocation(const TensorLocationSettings& settings);
  /// Where one tensor is, by name, whatever its class and size say: a variable, or an activation by
  /// the name of its op. A model that has none of this name refuses it.
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
