// Overlap of a device's inputs and outputs with its kernels. A Program overlaps them as far as data
// and memory allow; here it is told to do so in fewer places.
#pragma once

#include <cstdint>

#include "sluice/program/program.h"

namespace sluice::program {

enum class OverlapMode : std::uint8_t {
  NoOverlap,                  ///< a device either computes or talks to the host
  OverlapAccumulationLoop,    ///< both at a time inside of a round
  OverlapDeviceIterationLoop  ///< from round to round, too
};

struct OverlapPlan {
  OverlapMode inputs = OverlapMode::OverlapDeviceIterationLoop;
  OverlapMode outputs = OverlapMode::OverlapDeviceIterationLoop;
};

/// Adds the waits that keep feeds and drains apart from kernels. Changes no result.
void limitOverlap(Program& program, const OverlapPlan& plan);

}  // namespace sluice::program
