// ModelWriter: the nodes of an ONNX model, made op by op. The forms of single ops are in
// export_ops.cpp. Internal to this module.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/onnx/export.h"
#include "sluice/onnx/proto.h"

namespace sluice::onnx {

/// One node to be: attributes have ONNX's names and kinds; truth values are numbers there.
struct NewNode {
  std::string_view op;
  std::vector<std::string> inputs;
  std::vector<ir::NamedAttr> attrs = {};
};

class ModelWriter {
 public:
  ModelWriter(const ir::Graph& graph, const ExportOptions& options);

  std::string run();

  // For the forms of ops.
  const ir::Graph& graph() const { return graph_; }
  const Shape& shape(const ir::Op& op, std::size_t input) const {
    return graph_.type(op.inputs[input]).shape;
  }
  /// Names of the op's operands.
  std::vector<std::string> operands(const ir::Op& op) const;
  /// A constant that only the importer reads, such as a shape.
  std::string constant(const HostTensor& value);
  std::string integers(const std::vector<std::int64_t>& values);
  /// The op as one node of the standard; its results get their names.
  void addNode(const ir::Op& op, NewNode node);

 private:
  void nameValues();
  std::string freeName(std::string_view stem);
  void addInput(const ir::Op& op);
  void addInitializer(const ir::Variable& variable);
  void addOp(const ir::Op& op);
  void addOutputs();
  pb::NodeProto* newNode(const ir::Op& op, std::string_view type, std::string_view domain);

  const ir::Graph& graph_;
  const ExportOptions& options_;
  pb::ModelProto model_;
  std::unordered_map<ir::Value, std::string> names_;
  std::unordered_set<std::string> taken_;
  bool usesOwnDomain_ = false;
};

void setType(pb::ValueInfoProto& info, const std::string& name, const TensorType& type);
void addAttr(pb::NodeProto& node, const ir::NamedAttr& attr);

/// Adds the op in a form of the standard that imports as the same op; false if there is none.
bool addStandardForm(ModelWriter& writer, const ir::Op& op);

/// Our own ops in files.
inline constexpr std::string_view kOwnDomain = "sluice";

}  // namespace sluice::onnx
