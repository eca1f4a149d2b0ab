// Synthetic inputs: variables that are made once stand in place of all inputs, so that a step
// copies none.
#pragma once

#include <string>

#include "sluice/ir/graph.h"

namespace sluice::compiler {

struct SyntheticInputs {
  /// Begins the names of the variables. It differs between kinds of data, so that programs of a
  /// model with another kind have data of their own.
  std::string prefix;
  ir::Initializer floats;  ///< inputs of other types are 0: any other index may be out of range
};

void replaceInputs(ir::Graph& graph, const SyntheticInputs& synthetic);

}  // namespace sluice::compiler
