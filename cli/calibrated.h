// The target sim@measured: what `sluice calibrate` measured on this machine.
#pragma once

#include <string>

namespace sluice::cli {

/// The file of the target, whose folder exists then. Throws InvalidArgument if there can be none.
std::string measuredFile();

/// Measures the machine and says so, unless that was done before.
void requireMeasured();

}  // namespace sluice::cli
