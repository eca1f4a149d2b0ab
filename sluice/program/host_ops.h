// Ops that only the host can do, on devices that do not run on it: what they cost.
#pragma once

#include <string>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

/// A sentence for every op that the host runs between two launches of a device: which, and how many
/// bytes travel for it each time.
std::vector<std::string> hostOpWarnings(const Program& program);

}  // namespace sluice::program
