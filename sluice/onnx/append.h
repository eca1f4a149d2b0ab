// One ONNX op appended to a graph that is being built: the same translation as in a model file, of
// opset 17. The Builder's ops by ONNX name are made of it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/ir/graph_builder.h"

namespace sluice::onnx {

struct NodeCall {
  std::string_view op;
  std::vector<ir::Value> inputs = {};  ///< an invalid value: the operand is left out
  /// Operands by position that are values of their own; `inputs` has an invalid value there.
  std::map<std::size_t, HostTensor> constants = {};
  std::vector<ir::NamedAttr> attrs = {};  ///< reals become the 32-bit numbers that ONNX has
  std::size_t outputs = 1;                ///< how many of the results are wanted
  /// Attributes that are graphs; those may have no weights of their own.
  std::vector<std::pair<std::string_view, const ir::Graph*>> bodies = {};
  std::string_view domain = "";
};

/// The results. Operands that fix a shape or an axis must be constants or weights of the graph;
/// the latter count with the values that they start from. Throws what importModel throws.
std::vector<ir::Value> appendNode(ir::GraphBuilder& builder, const NodeCall& call);

}  // namespace sluice::onnx
