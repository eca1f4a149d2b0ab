// Tells ops of one name apart by numbers, so that what an op writes in one run can be found in
// another one, however that is cut and fused.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// The second op called "relu" becomes "relu#2", and so on in the order of the graph. Inputs,
/// variables and constants keep their names.
bool numberNames(ir::Graph& graph);

}  // namespace sluice::transforms
