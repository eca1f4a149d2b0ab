// A look at a shared library before the system's loader maps it: the loader trusts the file's own
// tables, and reading mapped memory after the end of a file that was cut off ends the process.
// Internal to this module.
#pragma once

#include <string_view>

#include "sluice/base/input_file.h"

namespace sluice::ops {

/// Throws FileError unless the file is a shared library for this kind of machine whose tables and
/// segments all lie in it.
void requireWholeLibrary(const InputFile& file, std::string_view name);

}  // namespace sluice::ops
