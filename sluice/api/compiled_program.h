// A compiled program as a model keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/parallel/execution_plan.h"
#include "sluice/runtime/engine.h"

namespace sluice {

/// A program and how it came about.
struct CompiledProgram {
  std::shared_ptr<runtime::LoadedProgram> program;  ///< a step that uses it owns it, too
  parallel::ExecutionPlan plan;
  bool proven = false;  ///< by program::verify
  std::vector<std::string> tensorNames = {};
  /// Which output has the loss, the model's own or an anchor; not set: none.
  std::optional<std::size_t> fetchedLoss = {};
  std::vector<std::string> warnings = {};
  std::int64_t devices = 1;  ///< reserved for all replicas
};

}  // namespace sluice
