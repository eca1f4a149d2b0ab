// What the options say to the compiler.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/compile/compile.h"
#include "sluice/ir/graph.h"

namespace sluice {

/// Names of variables that stand for inputs (syntheticDataMode) begin with this.
inline constexpr std::string_view kSyntheticPrefix = "synthetic/";

/// The strategy under which a traced graph is cut into phases before gradients are added, if any.
std::optional<Strategy> cutIntoPhases(const Options& options);

/// Everything but what is traced or trained, and what a session knows: kernels, state and memory.
/// `drainRules` are by output, empty: every micro-batch. Throws InvalidArgument for overlap without
/// I/O tiles where the IPU's rules are enforced, Unsupported for weights that are both sharded and
/// updated continuously.
compiler::CompileRequest compileRequest(ir::Graph graph,
                                        std::int32_t microBatches,
                                        std::vector<program::DrainRule> drainRules,
                                        const Options& options);

/// How gradients become updates.
compiler::TrainingGraphOptions trainingGraphOptions(std::int64_t accumulation,
                                                    const Options& options);

/// How a Builder's graph gets its stages.
parallel::PartitionOptions partitionOf(bool training, const Options& options);

/// What stands in place of the inputs. The mode is not Off.
compiler::SyntheticInputs syntheticInputs(SyntheticDataMode mode);

}  // namespace sluice
