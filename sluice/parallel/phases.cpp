#include <array>

#include "sluice/base/error.h"
#include "sluice/parallel/stage.h"

namespace sluice::parallel {

std::string_view name(Liveness liveness) {
  static constexpr std::array<std::string_view, 4> kNames = {
      "AlwaysLive", "OffChipAfterFwd", "OffChipAfterFwdNoOverlap", "OffChipAfterEachPhase"};
  return kNames[static_cast<std::size_t>(liveness)];
}

std::string_view name(PhaseSchedule schedule) {
  static constexpr std::array<std::string_view, 4> kNames = {
      "Automatic", "Interleaving", "Batch", "BatchClusteredIO"};
  return kNames[static_cast<std::size_t>(schedule)];
}

PhaseNumbers numberPhases(std::int32_t phases, Liveness liveness, bool separateBackward) {
  if (phases < 1) {
    raise<InvalidArgument>("phased execution needs at least one phase, got {}", phases);
  }
  // A gap of more than two phases sends tensors off the device.
  constexpr std::int32_t kGap = 3;
  PhaseNumbers numbers;
  switch (liveness) {
    case Liveness::AlwaysLive:
      numbers.count = phases + (separateBackward ? 1 : 0);
      break;
    case Liveness::OffChipAfterFwd:
      numbers.count = phases + kGap;
      break;
    case Liveness::OffChipAfterFwdNoOverlap:
      numbers.stride = 2;
      break;
    case Liveness::OffChipAfterEachPhase:
      numbers.stride = 4;
      break;
  }
  if (numbers.stride > 1) {
    numbers.count = numbers.stride * (phases - 1) + 1 + kGap;
  }
  for (std::int32_t p = 0; p < phases; ++p) {
    numbers.forward.push_back(numbers.stride * p);
    numbers.backward.push_back(2 * numbers.count - 2 - numbers.stride * p);
  }
  return numbers;
}

}  // namespace sluice::parallel
