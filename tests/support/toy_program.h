// Programs of toy kernels, and what the verifier says about them.
#pragma once

#include <string>

#include "sluice/base/error.h"
#include "sluice/program/lower.h"
#include "sluice/program/program.h"
#include "sluice/program/state_plan.h"
#include "sluice/program/verify.h"
#include "tests/support/toy_kernels.h"

namespace sluice::program {

/// Lowers a graph for toy devices.
inline Program lowerToy(const ir::Graph& graph, StatePlan& state, LowerOptions options = {}) {
  options.targets = toyTargets();
  return lower(graph, state, options);
}

inline Program lowered(const ir::Graph& graph, const LowerOptions& options = {}) {
  StatePlan state;
  return lowerToy(graph, state, options);
}

/// The verifier's message; empty if it accepts the program.
inline std::string complaint(const Program& program) {
  try {
    verify(program);
  } catch (const InternalError& error) {
    return error.message();
  }
  return "";
}

}  // namespace sluice::program
