// A conformance case as a graph of its own, for tests of what is done with whole graphs.
#pragma once

#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/ops/interpreter.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

std::vector<TensorType> operandTypes(const OpCase& c);

/// The op alone, with inputs in0, in1 ... of these types and all its results as outputs out0, out1
/// ... A random op has the ordinal 0, which the first one of every graph has. Throws
/// InvalidArgument for types that the op does not accept.
ir::Graph caseGraph(const OpCase& c, const std::vector<TensorType>& operands);
inline ir::Graph caseGraph(const OpCase& c) {
  return caseGraph(c, operandTypes(c));
}

/// Values for the inputs.
ops::TensorMap caseInputs(const OpCase& c);

}  // namespace sluice::testing
