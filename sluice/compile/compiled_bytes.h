// The result of a compilation as bytes, for executables and the cache: the Program, the places of
// the variables, and what reports say about the plan. The placed graph and the order of the
// schedule are left out, because the lanes of the Program have both.
#pragma once

#include <string>

#include "sluice/base/byte_code.h"
#include "sluice/compile/compile.h"

namespace sluice::compiler {

void writeCompiled(ByteWriter& out, const Compiled& compiled);
/// Throws FileError, and what checks of types throw. The Program is not verified (loaded.h).
Compiled readCompiled(ByteReader& in, const ir::OpSet& ops);

}  // namespace sluice::compiler
