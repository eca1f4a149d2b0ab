// Lets cross entropy read 16-bit scores as they are, instead of a float32 copy of them: with many
// classes that copy is the largest tensor of a model. The loss stays float32, and no bit changes.
#pragma once

#include "sluice/base/function_ref.h"
#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Before differentiation. `accepts` says whether a cross_entropy with wideLoss stays whole.
bool readHalfScores(ir::Graph& graph, FunctionRef<bool(const ir::OpView&)> accepts);

}  // namespace sluice::transforms
