// Profiling that the environment asks for, in models whose options do not: SLUICE_PROFILE, else
// Poplar's POPLAR_ENGINE_OPTIONS.
#pragma once

#include <optional>
#include <string>

#include "sluice/api/option_types.h"

namespace sluice {

/// What Options::enableProfiling, traceValues and traceKernels would say.
struct EnvironmentProfile {
  std::string directory = ".";
  TraceValues values = TraceValues::None;
  bool kernels = false;  ///< not of simulated devices, which run none in their virtual time
};

/// SLUICE_PROFILE is JSON, {"directory": "profile", "values": "Hashes", "kernels": true, "enable":
/// true}, all of them optional; of POPLAR_ENGINE_OPTIONS the keys autoReport.all,
/// autoReport.outputExecutionProfile and autoReport.directory count, and others are ignored. Throws
/// ConfigFileError, naming the variable, for what cannot be read.
std::optional<EnvironmentProfile> profileOfEnvironment();

}  // namespace sluice
