// Streaming: what a plan keeps in remote memory instead of on the devices, and for how long a
// device holds a copy of it.
//
// Under phased execution every pass of a stage has a phase number. What is used again at most two
// phases later stays where it is; what is used later than that goes to remote memory and comes back
// in time. Without phases activations go between the passes, of stages that hold so many
// micro-batches that it saves memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sluice/parallel/phases.h"

namespace sluice::parallel {

/// How long a device's copy of a remote variable serves.
enum class StreamOrder : std::uint8_t {
  WholeLoop,       ///< all micro-batches of a round; the update takes its buckets one by one
  PhaseMajor,      ///< all micro-batches of a phase: each phase loads its variables once per round
  MicroBatchMajor  ///< one micro-batch of a phase: every micro-batch loads them anew
};

struct Streaming {
  StreamOrder order = StreamOrder::WholeLoop;
  std::set<std::string, std::less<>> variables;  ///< in remote memory
  // By stage; empty: there are no phases.
  std::vector<std::int32_t> forwardPhase;
  std::vector<std::int32_t> backwardPhase;
  /// By stage, without phases: whether it holds more than kTravellingMicroBatches.
  std::vector<bool> stashes;
  /// Whether activations go to remote memory while they are not needed, and the smallest that do,
  /// in elements.
  bool activations = false;
  std::int64_t minActivationElements = 2;
  /// Activations with a location of their own, by name: whether they stay on their device.
  std::map<std::string, bool, std::less<>> tensors;

  /// Whether both passes of the last phase take turns, micro-batch by micro-batch.
  bool turnsAround = false;

  bool sharesPhase(std::int32_t stage) const {
    const auto s = static_cast<std::size_t>(stage);
    return turnsAround && forwardPhase[s] == backwardPhase[s];
  }
  /// Whether a phase's data is loaded while the one before computes, and saved while the next does.
  bool overlaps = true;
  /// How the update takes turns with the state that it streams; not Automatic.
  PhaseSchedule updates = PhaseSchedule::Interleaving;

  bool hasPhases() const { return !forwardPhase.empty(); }
};

/// Phases that a tensor stays on a device without being used.
inline constexpr std::int32_t kLivePhases = 2;

/// Micro-batches of a stage whose activations are on the device although they have left: two slots
/// on the way out, one being filled and one being saved, and two on the way back.
inline constexpr std::int32_t kTravellingMicroBatches = 4;

}  // namespace sluice::parallel
