// Synthetic inputs: variables that are made once replace all inputs, so that a step copies no input
// data.
#pragma once

#include <string>

#include "sluice/ir/graph.h"

namespace sluice::compiler {

struct SyntheticInputs {
  /// The prefix of the variables' names. It differs between kinds of data, so that programs of a
  /// model with different kinds have separate data.
  std::string prefix;
  ir::Initializer floats;  ///< inputs of other types are 0: another index may be out of range
};

void replaceInputs(ir::Graph& graph, const SyntheticInputs& synthetic);

}  // namespace sluice::compiler
