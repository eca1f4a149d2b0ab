// Runs a graph op by op with the reference kernels: the oracle of every device and the evaluator
// behind constant folding. Composite ops are decomposed as it goes. Slow and simple on purpose.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::ops {

using TensorMap = std::map<std::string, HostTensor, std::less<>>;

/// One op on host tensors.
std::vector<HostTensor> evaluate(const ir::OpDef& def,
                                 const ir::Attrs& attrs,
                                 const std::vector<HostTensor>& inputs,
                                 ir::RunInfo run = {});

/// What evaluate would do for one op: flops and bytes that are read and written, those of its parts
/// if it is a composite.
double workOf(const ir::OpDef& def, const ir::Attrs& attrs, const std::vector<TensorType>& inputs);

/// A whole graph: inputs by name, variables by name (changed by assigns); returns the outputs by
/// name. Throws InvalidArgument for a missing or ill-typed input or variable.
TensorMap evaluate(const ir::Graph& graph,
                   const TensorMap& inputs,
                   TensorMap& variables,
                   ir::RunInfo run = {});

}  // namespace sluice::ops
