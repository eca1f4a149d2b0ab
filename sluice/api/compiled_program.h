// A compiled program as a model keeps it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/parallel/execution_plan.h"
#include "sluice/runtime/engine.h"

namespace sluice {

/// A program and how it came about.
struct CompiledProgram {
  std::unique_ptr<runtime::LoadedProgram> program;
  parallel::ExecutionPlan plan;
  bool proven = false;  ///< by program::verify
  std::vector<std::string> tensorNames = {};
  std::vector<std::string> warnings = {};
  std::int64_t devices = 1;  ///< reserved for all replicas
};

}  // namespace sluice
