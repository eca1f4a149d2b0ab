// What the options make of a finished graph: the execution plan, the rules it was checked against,
// and later the program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/execution_plan.h"
#include "sluice/runtime/engine.h"

namespace sluice {

/// A program and how it came about.
struct CompiledProgram {
  std::unique_ptr<runtime::LoadedProgram> program;
  parallel::ExecutionPlan plan;
  std::vector<std::string> warnings = {};
  std::int64_t devices = 1;  ///< reserved for all replicas
};

/// Places the graph, plans a round and checks the rules; the program is still to be made. Throws
/// InvalidArgument for a strategy that does not fit the graph and for a rule that is broken.
CompiledProgram planProgram(ir::Graph& graph,
                            std::int32_t microBatches,
                            const Options& options,
                            parallel::VariableHomes homes);

}  // namespace sluice
