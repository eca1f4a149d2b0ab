#include <fmt/format.h>

#include "sluice/api/option_groups.h"
#include "sluice/base/error.h"

namespace sluice {
namespace {

std::int64_t checkedCount(std::string_view setter, std::int64_t count) {
  if (count < 0) {
    raise<InvalidArgument>("{}: expected a number of elements from 0 on, got {}", setter, count);
  }
  return count;
}

}  // namespace

TensorLocationSettings& TensorLocationSettings::useOnChipStorage(std::optional<bool> on) {
  values_.onChip = on;
  return *this;
}

TensorLocationSettings& TensorLocationSettings::minElementsForOffChip(std::int64_t count) {
  values_.minElements = checkedCount("minElementsForOffChip", count);
  return *this;
}

TensorLocationSettings& TensorLocationSettings::useReplicatedTensorSharding(bool on) {
  values_.sharded = on;
  return *this;
}

TensorLocationSettings& TensorLocationSettings::minElementsForReplicatedTensorSharding(
    std::int64_t count) {
  values_.minElementsToShard = checkedCount("minElementsForReplicatedTensorSharding", count);
  return *this;
}

TensorLocationSettings& TensorLocationSettings::useIOTilesToLoad(bool on) {
  values_.loadsByIoTiles = on;
  return *this;
}

TensorLocationSettings& TensorLocationSettings::useIOTilesToStore(bool on) {
  values_.storesByIoTiles = on;
  return *this;
}

std::string TensorLocationSettings::str() const {
  const parallel::TensorLocation plain;
  std::string text = "TensorLocationSettings()";
  if (values_.onChip) {
    text += fmt::format(".useOnChipStorage({})", *values_.onChip);
  }
  if (values_.minElements != plain.minElements) {
    text += fmt::format(".minElementsForOffChip({})", values_.minElements);
  }
  if (values_.sharded) {
    text += ".useReplicatedTensorSharding(true)";
  }
  if (values_.minElementsToShard != plain.minElementsToShard) {
    text += fmt::format(".minElementsForReplicatedTensorSharding({})", values_.minElementsToShard);
  }
  text += values_.loadsByIoTiles ? ".useIOTilesToLoad(true)" : "";
  text += values_.storesByIoTiles ? ".useIOTilesToStore(true)" : "";
  return text;
}

TensorLocationOptions& TensorLocationOptions::setActivationLocation(
    const TensorLocationSettings& settings) {
  return set(activation_, settings);
}

TensorLocationOptions& TensorLocationOptions::setWeightLocation(
    const TensorLocationSettings& settings) {
  return set(weight_, settings);
}

TensorLocationOptions& TensorLocationOptions::setOptimizerLocation(
    const TensorLocationSettings& settings) {
  return set(optimizer_, settings);
}

TensorLocationOptions& TensorLocationOptions::setAccumulatorLocation(
    const TensorLocationSettings& settings) {
  return set(accumulator_, settings);
}

TensorLocationOptions& TensorLocationOptions::setTensorLocation(std::string name, bool onChip) {
  requireUnfrozen();
  if (name.empty()) {
    raise<InvalidArgument>("setTensorLocation: expected the name of a tensor, got an empty one");
  }
  tensors_.insert_or_assign(std::move(name), onChip);
  return *this;
}

TensorLocationOptions& TensorLocationOptions::numIOTiles(std::int64_t count) {
  requireUnfrozen();
  constexpr std::int64_t kFewest = 32;
  constexpr std::int64_t kMost = 192;
  if (count != 0 && (count < kFewest || count > kMost || count % 2 != 0)) {
    raise<InvalidArgument>(
        "numIOTiles: expected an even number from {} to {}, or 0, got {}", kFewest, kMost, count);
  }
  ioTiles_ = static_cast<std::int32_t>(count);
  return *this;
}

parallel::LocationPlan TensorLocationOptions::plan() const {
  return {
      activation_.values(), weight_.values(), optimizer_.values(), accumulator_.values(), tensors_};
}

}  // namespace sluice
