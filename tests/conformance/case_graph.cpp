#include "tests/conformance/case_graph.h"

#include <fmt/format.h>

#include "sluice/ir/graph.h"
#include "tests/support/random_tensor.h"

namespace sluice::testing {

std::vector<TensorType> operandTypes(const OpCase& c) {
  std::vector<TensorType> types;
  for (const Operand& operand : c.operands) {
    types.push_back(operand.type);
  }
  return types;
}

ir::Graph caseGraph(const OpCase& c, const std::vector<TensorType>& operands) {
  ir::Graph graph("case");
  ir::GraphBuilder builder(graph);
  std::vector<ir::Value> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(builder.input(fmt::format("in{}", i), operands[i]));
  }
  ir::Attrs attrs = c.attrs;
  if (c.def.traits.random) {
    attrs.set({"ordinal", 0});
  }
  const std::vector<ir::Value> results = builder.addMany(c.def, inputs, attrs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    graph.addOutput(fmt::format("out{}", i), results[i]);
  }
  return graph;
}

ops::TensorMap caseInputs(const OpCase& c) {
  ops::TensorMap values;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    values.insert_or_assign(fmt::format("in{}", i),
                            operand.value
                                ? *operand.value
                                : randomTensor(i + 1, operand.type, operand.low, operand.high));
  }
  return values;
}

}  // namespace sluice::testing
