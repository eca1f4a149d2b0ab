// Names of a graph's tensors, and the anchors: tensors that are returned like outputs because the
// options name them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::compiler {

/// A tensor of a graph that users can request.
struct NamedTensor {
  std::string name;
  ir::Value value;
};

struct AnchorName {
  std::string shortName;  ///< the name under which it is returned
  std::string longName;   ///< the tensor's name
};

/// The names of the results of a pass's ops: the op's name, with ":1" and so on for further results
/// and "#2" and so on for further ops with the same name. Constants and variables have no such
/// names.
std::vector<NamedTensor> namedTensors(const ir::Graph& graph, ir::Pass pass);

/// Adds the anchors that name one of these tensors as outputs.
void addAnchors(ir::Graph& graph,
                std::span<const NamedTensor> tensors,
                std::span<const AnchorName> anchors);

/// Keeps the first `own` outputs and, after them, the anchors in their order. Throws
/// InvalidArgument for an anchor that was never added.
void keepOutputs(ir::Graph& graph, std::size_t own, std::span<const AnchorName> anchors);

}  // namespace sluice::compiler
