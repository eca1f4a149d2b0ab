// CompiledProgram: a compiled program as a model keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/parallel/execution_plan.h"
#include "sluice/program/state_plan.h"
#include "sluice/runtime/engine.h"

namespace sluice {

/// A program, its plan, and what the compiler found out about it.
struct CompiledProgram {
  std::shared_ptr<runtime::LoadedProgram> program;  ///< also owned by a step that uses it
  parallel::ExecutionPlan plan;
  bool proven = false;  ///< whether program::verify has proven it
  std::vector<std::string> tensorNames = {};
  /// The output that holds the loss, either one of the model's own or an anchor; not set: none
  /// does.
  std::optional<std::size_t> fetchedLoss = {};
  std::vector<std::string> warnings = {};
  std::int64_t devices = 1;  ///< devices reserved for all replicas together
  bool cached = false;       ///< whether it came from the cache of executables
  /// Where its variables are; not set: where those of the session are, which has them.
  std::optional<program::StatePlan> state = {};
};

}  // namespace sluice
