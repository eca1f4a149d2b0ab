// A graph as a drawing for Graphviz: `dot -Tsvg graph.dot`. A box per op, an arrow per value; ops
// of one device or stage stand together.
#pragma once

#include <string>

#include "sluice/ir/graph.h"

namespace sluice::ir {

std::string printDot(const Graph& graph);

}  // namespace sluice::ir
