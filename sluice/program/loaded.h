// Checks of a Program that comes from a file. Whoever wrote it may be wrong or hostile, so nothing
// of it is believed: what passes these checks can neither crash a device nor make it touch memory
// that is not its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sluice/program/lower.h"
#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"

namespace sluice::program {

/// Throws FileError unless the Program has numbers of a possible size, its kernels the types that
/// their ops infer, its variables the places of the plan, and its staging memory room for its data;
/// and unless `verify` proves it.
void requireSound(const Program& program, const StatePlan& plan, std::int32_t replicas);

/// Says which kernel these devices would choose otherwise, or with which layouts; empty: none. The
/// last target is for all further devices. Must be asked before a sound Program is loaded.
std::string otherChoice(const Program& program, std::span<const Target> targets);

}  // namespace sluice::program
