// Streaming: what a plan keeps in remote memory instead of on the devices, and how long a device
// holds a copy of it.
//
// Under phased execution every pass of a stage has a phase number. A tensor that is used again
// within two phases stays on its device; otherwise it goes to remote memory and comes back in time.
// Without phases, activations go to remote memory between the two passes of a stage, if the stage
// holds those of more than two micro-batches: the micro-batch that is being made and the one that
// is being used must be on the device.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sluice/parallel/stage.h"

namespace sluice::parallel {

/// How long a device keeps its copy of a remote variable.
enum class StreamOrder : std::uint8_t {
  WholeLoop,       ///< all micro-batches of a round; the update takes its buckets one by one
  PhaseMajor,      ///< all micro-batches of a phase, which loads its variables once per round
  MicroBatchMajor  ///< one micro-batch of a phase: every micro-batch loads them again
};

/// The slots of a device for an activation that travels to remote memory and back.
struct TravelSlots {
  std::int32_t out = 0;  ///< for values that are made or saved; 0: the activation does not leave
  std::int32_t in = 0;   ///< for values that are loaded or used

  bool leaves() const { return out > 0; }
};

/// The activations of this many micro-batches of a stage cannot leave.
inline constexpr std::int32_t kStayingMicroBatches = 2;

/// The slots for a stage that holds the activations of `held` micro-batches. They are always fewer
/// than `held`. If possible there are two of each kind: kernels use one while the other moves.
constexpr TravelSlots travelSlots(std::int32_t held) {
  if (held <= kStayingMicroBatches) {
    return {};
  }
  return {.out = held > 4 ? 2 : 1, .in = held > 3 ? 2 : 1};
}

struct Streaming {
  StreamOrder order = StreamOrder::WholeLoop;
  std::set<std::string, std::less<>> variables;  ///< in remote memory
  // By stage; empty if there are no phases.
  std::vector<std::int32_t> forwardPhase;
  std::vector<std::int32_t> backwardPhase;
  /// By stage, without phases; empty if nothing is kept for a backward pass.
  std::vector<TravelSlots> travel;
  /// Whether activations go to remote memory while they are not needed, and the smallest size for
  /// it in elements.
  bool activations = false;
  std::int64_t minActivationElements = 2;
  /// Activations with a location of their own, by name; true if they stay on their device.
  std::map<std::string, bool, std::less<>> tensors;

  /// Whether the two passes of the last phase alternate, micro-batch by micro-batch.
  bool turnsAround = false;

  bool sharesPhase(std::int32_t stage) const {
    const auto s = static_cast<std::size_t>(stage);
    return turnsAround && forwardPhase[s] == backwardPhase[s];
  }
  /// Whether a phase's data is loaded during the previous phase and saved during the next.
  bool overlaps = true;
  /// How the update alternates with streaming its state; not Automatic.
  PhaseSchedule updates = PhaseSchedule::Interleaving;

  bool hasPhases() const { return !forwardPhase.empty(); }
};

/// The number of phases that a tensor stays on a device without being used.
inline constexpr std::int32_t kLivePhases = 2;

}  // namespace sluice::parallel
