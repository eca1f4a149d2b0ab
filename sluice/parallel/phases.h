// The numbers of phases. Forward phases count up; the backward phase of forward phase p is 2 N - 2
// - p, where N is the number of forward phases and gaps. The distance between two numbers decides
// what stays on a device between them (see streaming.h); a Liveness chooses the gaps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice::parallel {

/// Where tensors are between the phases that use them.
enum class Liveness : std::uint8_t {
  AlwaysLive,                ///< the last forward and the first backward phase are one
  OffChipAfterFwd,           ///< off the devices between the forward and the backward pass
  OffChipAfterFwdNoOverlap,  ///< the same, and no two phases have data at the same time
  OffChipAfterEachPhase      ///< off the devices after every phase
};
std::string_view name(Liveness liveness);

/// How the update of a phase alternates with loading and saving its state. Automatic: Batch if
/// there is room, otherwise Interleaving. No choice changes a result.
enum class PhaseSchedule : std::uint8_t {
  Automatic,
  Interleaving,     ///< variable by variable: one is loaded while the previous one is updated
  Batch,            ///< all are loaded ahead; each is saved after its update
  BatchClusteredIO  ///< all are loaded before the whole update and saved after it
};
std::string_view name(PhaseSchedule schedule);

struct PhaseNumbers {
  std::int32_t count = 0;   ///< N: forward phases and gaps
  std::int32_t stride = 1;  ///< from one forward phase to the next
  std::vector<std::int32_t> forward;
  std::vector<std::int32_t> backward;  ///< of the same phase
};

/// Numbers `phases` forward phases. Throws InvalidArgument for less than one.
PhaseNumbers numberPhases(std::int32_t phases, Liveness liveness, bool separateBackward);

}  // namespace sluice::parallel

#pragma GCC visibility pop
