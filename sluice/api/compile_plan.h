// Translates Options into requests to the compiler.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/compile/compile.h"
#include "sluice/ir/graph.h"

namespace sluice {

/// The prefix of the names of variables that replace inputs (syntheticDataMode).
inline constexpr std::string_view kSyntheticPrefix = "synthetic/";

/// The strategy under which a traced graph is cut into phases before gradients are added, if any.
std::optional<Strategy> cutIntoPhases(const Options& options);

/// Fills in what the options decide. What tracing and training add, and what a session knows
/// (kernels, state and memory), is missing. `drainRules` has one rule per output; if it is empty,
/// every micro-batch is returned. Throws InvalidArgument for overlap without I/O tiles while the
/// IPU's rules are enforced, and Unsupported for weights that are both sharded and updated
/// continuously.
compiler::CompileRequest compileRequest(ir::Graph graph,
                                        std::int32_t microBatches,
                                        std::vector<program::DrainRule> drainRules,
                                        const Options& options);

/// How gradients become updates.
compiler::TrainingGraphOptions trainingGraphOptions(std::int64_t accumulation,
                                                    const Options& options);

/// Whether the strategy asks for a cut by the work of ops.
bool cutsAutomatically(const Options& options);

/// How a Builder's graph, or a model under an automatic strategy, gets its stages. Throws
/// InvalidArgument if the options ask for two cuts.
parallel::PartitionOptions partitionOf(bool training, const Options& options);

/// The values that replace the inputs. The mode must not be Off.
compiler::SyntheticInputs syntheticInputs(SyntheticDataMode mode);

}  // namespace sluice
