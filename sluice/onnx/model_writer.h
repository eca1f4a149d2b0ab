// ModelWriter: makes the nodes of an ONNX model op by op. The ONNX forms of single ops are in
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
#include "sluice/ops/custom_op.h"

namespace sluice::onnx {

/// A node to be added. Attributes have ONNX's names and kinds; ONNX has numbers in place of bools.
struct NewNode {
  std::string_view op;
  std::vector<std::string> inputs;
  std::vector<ir::NamedAttr> attrs = {};
  std::size_t outputs = 0;  ///< number of results, counted from the first; 0: all
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
  /// Adds the op as one standard node, whose outputs have the names of the op's results.
  void addNode(const ir::Op& op, NewNode node);
  /// Adds a node before the op's own node and returns the name of its result.
  std::string addHelper(NewNode node);
  /// Whether the value is an output or an op reads it.
  bool isRead(ir::Value value) const;
  /// Whether an op of this kind reads the value.
  bool isReadBy(ir::Value value, const ir::OpDef& def) const;

 private:
  void nameValues();
  std::string freeName(std::string_view stem);
  void addInput(const ir::Op& op);
  void addInitializer(const ir::Variable& variable);
  void addOp(const ir::Op& op);
  void addCustomOp(const ir::Op& op, const ops::CustomOpInfo& custom);
  void addCustomDomains();
  void addOutputs();
  pb::NodeProto* newNode(const ir::Op& op, std::string_view type, std::string_view domain);
  static void fill(pb::NodeProto& proto, NewNode node);

  const ir::Graph& graph_;
  const ExportOptions& options_;
  ir::Users users_;
  pb::ModelProto model_;
  std::unordered_map<ir::Value, std::string> names_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::int64_t> numbers_;  // the next number to try, by stem
  bool usesOwnDomain_ = false;
  std::vector<ops::CustomOpInfo> customOps_;  // those that the model uses
};

void setType(pb::ValueInfoProto& info, const std::string& name, const TensorType& type);
void addAttr(pb::NodeProto& node, const ir::NamedAttr& attr);
/// The same, with reals as 32-bit numbers, as in the standard.
void addNarrowAttr(pb::NodeProto& node, const ir::NamedAttr& attr);

/// Adds the op in a standard form that imports as the same op. Returns false if there is none.
bool addStandardForm(ModelWriter& writer, const ir::Op& op);

/// The domain of our own ops in files.
inline constexpr std::string_view kOwnDomain = "sluice";

}  // namespace sluice::onnx
