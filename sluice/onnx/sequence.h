// Sequences of tensors exist only while a model is imported: such a value is the result of an op
// that lists the elements. No sequence may be left in the imported graph.
#pragma once

#include <vector>

#include "sluice/onnx/node.h"

namespace sluice::onnx {

bool isSequence(const ir::Graph& graph, ir::Value value);
ir::Value makeSequence(Node& node, std::vector<ir::Value> elements);
/// Throws InvalidArgument if the value is a tensor.
std::vector<ir::Value> elementsOf(const ir::Graph& graph, ir::Value value);

}  // namespace sluice::onnx
