// The numbers of phases. Forward phases count up, the backward phase of forward phase p is
// 2 N - 2 - p; how far the numbers lie apart decides what stays on a device between them (see
// streaming.h), and that is how a Liveness takes effect.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::parallel {

/// Where tensors are between the phases that use them.
enum class Liveness : std::uint8_t {
  AlwaysLive,                ///< the last forward and the first backward phase are one
  OffChipAfterFwd,           ///< off the devices between the forward and the backward pass
  OffChipAfterFwdNoOverlap,  ///< the same, and nothing of two phases at the same time
  OffChipAfterEachPhase      ///< off the devices behind every phase
};
std::string_view name(Liveness liveness);

/// How the update of a phase takes turns with the state that it loads and saves. Automatic: Batch
/// where there is room, else Interleaving. None changes a result.
enum class PhaseSchedule : std::uint8_t {
  Automatic,
  Interleaving,     ///< variable by variable, each loaded while the one before is updated
  Batch,            ///< all are loaded ahead; each is saved once it is updated
  BatchClusteredIO  ///< all are loaded before and saved behind the update of all
};
std::string_view name(PhaseSchedule schedule);

struct PhaseNumbers {
  std::int32_t count = 0;   ///< N: forward phases and gaps
  std::int32_t stride = 1;  ///< between forward phases
  std::vector<std::int32_t> forward;
  std::vector<std::int32_t> backward;  ///< of the same phase
};

/// For `phases` forward phases. Throws InvalidArgument for none.
PhaseNumbers numberPhases(std::int32_t phases, Liveness liveness, bool separateBackward);

}  // namespace sluice::parallel
