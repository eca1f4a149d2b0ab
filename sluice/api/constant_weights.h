// Graphs of inference that contain the values of their variables: options constantWeights and
// foldBatchNorm, and sessions of PopART.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/api/graph_source.h"
#include "sluice/api/options.h"
#include "sluice/ir/graph.h"

namespace sluice {

/// Throws InvalidArgument where a model cannot have constant weights, and where foldBatchNorm is
/// set without them. `sourceHas` says whether the model's source has them whatever the option says.
void requireConstantWeights(const Options& options, bool training, bool sourceHas);

/// Throws InvalidArgument if the options keep weights off the devices, where no constant can be.
void requireWeightsOnDevices(const Options& options);

using ValueOfVariable = std::function<HostTensor(const ir::Variable&)>;

/// Puts constants in place of the reads of variables, except for those that the graph writes,
/// buffers that the options name, and those that replicas may have apart. Returns the names of
/// those that became constants. Throws InvalidArgument for one that the options keep off the
/// devices.
std::vector<std::string> fixVariables(TracedGraph& traced,
                                      const ValueOfVariable& valueOf,
                                      const Options& options);

/// Which values a program has as constants, so that it can be compiled again when they change.
struct FixedValues {
  std::vector<std::string> variables = {};
  std::uint64_t hash = 0;
  std::uint64_t writes = 0;  ///< those of the session by others when the hash was compared last
  /// The hash of the constants of a source that has them whatever the option says.
  std::optional<std::uint64_t> ofSource = {};
};

/// The hash of the current values. Variables that no session holds have none.
std::uint64_t hashOf(std::span<const std::string> variables, Session& session);

/// The hash of all constants of a graph, in their order.
std::uint64_t hashOfConstants(const ir::Graph& graph);

}  // namespace sluice
