// Overlap of a device's inputs and outputs with its kernels. By default a Program overlaps them as
// far as data and memory allow; this module restricts that.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace sluice::program {

struct Program;

enum class OverlapMode : std::uint8_t {
  NoOverlap,                  ///< a device either computes or communicates with the host
  OverlapAccumulationLoop,    ///< both at the same time within a round
  OverlapDeviceIterationLoop  ///< also from round to round
};

struct OverlapPlan {
  OverlapMode inputs = OverlapMode::OverlapDeviceIterationLoop;
  OverlapMode outputs = OverlapMode::OverlapDeviceIterationLoop;
};

/// Adds the waits that separate feeds and drains from kernels. Changes no result.
void limitOverlap(Program& program, const OverlapPlan& plan);

}  // namespace sluice::program

#pragma GCC visibility pop
