// Checks a shared library before the system's loader maps it. The loader trusts the tables in the
// file, and if the file is cut off, reading the mapped memory after its end kills the process.
// Internal to this module.
#pragma once

#include <string_view>

#include "sluice/base/input_file.h"

namespace sluice::ops {

/// Throws FileError unless the file is a shared library for this kind of machine and contains all
/// of its tables and segments.
void requireWholeLibrary(const InputFile& file, std::string_view name);

}  // namespace sluice::ops
