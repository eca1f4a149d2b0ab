// The cost of ops that only the host can run, on devices that do not run on the host.
#pragma once

#include <string>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

/// One sentence for every op that the host runs between two launches of a device: which op it is,
/// and how many bytes are copied for it each time.
std::vector<std::string> hostOpWarnings(const Program& program);

}  // namespace sluice::program
