// Appends one ONNX op to a graph that is being built, with the same translation as for a model
// file. The Builder uses it for ops by their ONNX names.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::onnx {

struct NodeCall {
  std::string_view op;
  std::vector<ir::Value> inputs = {};  ///< an invalid value leaves the operand out
  /// Operands that are given as host tensors, by position; `inputs` has an invalid value there.
  std::map<std::size_t, HostTensor> constants = {};
  std::vector<ir::NamedAttr> attrs = {};  ///< reals become 32-bit numbers, as in ONNX
  std::size_t outputs = 1;                ///< the number of results that are wanted
  /// Attributes that are graphs; these must not have weights.
  std::vector<std::pair<std::string_view, const ir::Graph*>> bodies = {};
  std::string_view domain = "";
  int opset = 17;         ///< of the default domain: which version of the op is meant
  bool training = false;  ///< the same as ImportOptions::training
};

/// Returns the results of the op. Operands that determine a shape or an axis must be constants or
/// weights of the graph; for a weight its start value is used. Throws what importModel throws.
std::vector<ir::Value> appendNode(ir::GraphBuilder& builder, const NodeCall& call);

}  // namespace sluice::onnx
