// Dumps that the environment asks for: SLUICE_DUMP (a folder), SLUICE_DUMP_POINTS (names of the
// compiler's stages, separated by ':'), SLUICE_DUMP_DOT (1: graphs also as drawings); else PopART's
// POPART_IR_DUMP and POPART_DOT_CHECKS.
#pragma once

#include <string>

#include "sluice/compile/compile.h"

namespace sluice {

struct EnvironmentDumps {
  std::string folder;  ///< empty: none
  compiler::DumpSelection selection;
};

/// Throws ConfigFileError, naming the variable, for a point that does not exist.
EnvironmentDumps dumpsOfEnvironment();

}  // namespace sluice
