// Sequences of tensors exist only while a model is imported. The value of a sequence is the result
// of an op that lists its elements. No sequence may remain in the imported graph.
#pragma once

#include <vector>

#include "sluice/onnx/node.h"

namespace sluice::onnx {

bool isSequence(const ir::Graph& graph, ir::Value value);
ir::Value makeSequence(Node& node, std::vector<ir::Value> elements);
/// Throws InvalidArgument if the value is a tensor.
std::vector<ir::Value> elementsOf(const ir::Graph& graph, ir::Value value);

}  // namespace sluice::onnx
