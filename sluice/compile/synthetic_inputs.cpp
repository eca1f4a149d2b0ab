#include "sluice/compile/synthetic_inputs.h"

#include <unordered_map>
#include <vector>

#include <fmt/format.h>

namespace sluice::compiler {

void replaceInputs(ir::Graph& graph, const SyntheticInputs& synthetic) {
  std::unordered_map<ir::Value, ir::Value> replacements;
  const std::vector<ir::OpId> inputs = graph.inputs();
  for (const ir::OpId id : inputs) {
    const ir::Op& input = graph.op(id);
    const TensorType type = input.outputs[0];
    // Programs of a model with other shapes have data of their own.
    const std::string name = fmt::format("{}{}/{}", synthetic.prefix, input.name, type.str());
    graph.addVariable(
        {.name = name,
         .type = type,
         .role = ir::VariableRole::Buffer,
         .trainable = false,
         .initializer = isFloat(type.dtype) ? synthetic.floats : ir::Initializer::constant(0)});
    const ir::OpId read = graph.insertBefore(id,
                                             {.def = ir::kVariable,
                                              .attrs = {{"var", name}},
                                              .name = name,
                                              .place = input.place,
                                              .types = {type}});
    replacements.emplace(ir::Value{id, 0}, ir::Value{read, 0});
  }
  graph.replaceUses(replacements);
  graph.remove(inputs);
}

}  // namespace sluice::compiler
