// Prints a plan for dumps.
#pragma once

#include <string>

#include "sluice/compile/stages.h"

namespace sluice::compiler {

/// The segments of the cut graph, with their ops.
std::string printSegments(const Compilation& c);
/// The order of every device: "F0" is the forward pass of micro-batch 0 in the stage before the
/// colon, B is the backward pass, and I and W are its two parts.
std::string printSchedule(const Compilation& c);
/// Every buffer of every device, by offset.
std::string printMemory(const Compilation& c);

}  // namespace sluice::compiler
