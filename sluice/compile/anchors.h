// Names of a graph's tensors, and the anchors: tensors that come back like outputs because the
// options name them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::compiler {

/// A tensor of a graph that users can ask for.
struct NamedTensor {
  std::string name;
  ir::Value value;
};

struct AnchorName {
  std::string shortName;  ///< what it comes back as
  std::string longName;   ///< the tensor's name
};

/// Names for the results of the ops of a pass: the op's name, with ":1" and so on for further
/// results and "#2" and so on for further ops of one name. Constants and variables have none.
std::vector<NamedTensor> namedTensors(const ir::Graph& graph, ir::Pass pass);

/// Adds those anchors as outputs that name one of the tensors.
void addAnchors(ir::Graph& graph,
                std::span<const NamedTensor> tensors,
                std::span<const AnchorName> anchors);

/// Keeps the first `own` outputs, and after them the anchors in their order. Throws InvalidArgument
/// for an anchor that was never added.
void keepOutputs(ir::Graph& graph, std::size_t own, std::span<const AnchorName> anchors);

}  // namespace sluice::compiler
