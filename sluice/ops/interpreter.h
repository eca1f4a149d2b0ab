// Runs a graph op by op with the reference kernels: the oracle of every device and the evaluator of
// constant folding. Composite ops are decomposed on the way. It is slow and simple on purpose.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::ops {

using TensorMap = std::map<std::string, HostTensor, std::less<>>;

/// Runs one op on host tensors.
std::vector<HostTensor> evaluate(const ir::OpDef& def,
                                 const ir::Attrs& attrs,
                                 const std::vector<HostTensor>& inputs,
                                 ir::RunInfo run = {});

/// The work of evaluating one op: the sum of its flops and of the bytes read and written. A
/// composite has the work of its parts.
double workOf(const ir::OpDef& def, const ir::Attrs& attrs, const std::vector<TensorType>& inputs);

/// Runs a whole graph on inputs and variables by name; assigns change `variables`. Returns the
/// outputs by name. Throws InvalidArgument for a missing or ill-typed input or variable.
TensorMap evaluate(const ir::Graph& graph,
                   const TensorMap& inputs,
                   TensorMap& variables,
                   ir::RunInfo run = {});

}  // namespace sluice::ops
