// ModelWriter: the nodes of an ONNX model, made op by op. The forms of single ops are in
// export_*.cpp. Internal to this module.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/onnx/export_forms.h"
#include "sluice/onnx/files.h"
#include "sluice/onnx/proto.h"
#include "sluice/ops/custom_op.h"

namespace sluice::onnx {

/// One node to be, of the standard: attributes have ONNX's names and kinds; truth values are
/// numbers there.
struct NewNode {
  std::string_view op;
  std::vector<std::string> inputs = {};  ///< an empty name: the operand is left out
  std::vector<ir::NamedAttr> attrs = {};
  std::size_t outputs = 0;  ///< the first results of the op that the node has; 0: all
  std::string note = {};    ///< for the importer; other readers pass over it
};

class ModelWriter {
 public:
  ModelWriter(const ir::Graph& graph, const ExportOptions& options);

  std::string run();

  // For the forms of ops.
  const UsedGraph& used() const { return used_; }
  const std::string& nameOf(ir::Value value) const { return names_.at(value); }
  /// Names of the op's operands.
  std::vector<std::string> operands(const ir::Op& op) const;
  /// A constant that decides about a node, such as a shape, or that its form needs.
  std::string constant(const HostTensor& value);
  std::string integers(const std::vector<std::int64_t>& values);
  /// A name of its own for a result of this type.
  std::string newName(DType dtype);
  /// The op as one node; its results get their names.
  void addNode(const ir::Op& op, NewNode node);
  /// A node with results of these names. Operands and results of types that the standard does not
  /// have for it are cast, unless the file is exact.
  void addNode(NewNode node, const std::vector<std::string>& results);
  /// A node for an op's own one to read; the name of its result. Its type is that of the first
  /// operand unless it is given.
  std::string addHelper(NewNode node, std::optional<DType> dtype = {});

 private:
  void requireOwnNames() const;
  void nameValues();
  void giveWantedNames();
  std::string freeName(std::string_view stem);
  void addInput(const ir::Op& op);
  void addInitializer(const ir::Variable& variable);
  void addOp(const ir::Op& op);
  void addCustomOp(const ir::Op& op, const ops::CustomOpInfo& custom);
  void addCustomDomains();
  void addOutputs();
  /// A node for the op in a domain that is not the standard's.
  pb::NodeProto* newNode(const ir::Op& op, std::string_view type, std::string_view domain);
  /// A node of the standard with just these operands and results.
  void addPlainNode(const NewNode& node, const std::vector<std::string>& results);
  bool isStandard(const ir::Op& op) const;

  const ir::Graph& graph_;
  const ExportOptions& options_;
  ir::Users users_;
  UsedGraph used_;
  pb::ModelProto model_;
  std::unordered_map<ir::Value, std::string> names_;
  std::unordered_map<std::string, DType> dtypes_;  // of every name
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::int64_t> numbers_;  // the next number to try, by stem
  bool usesOwnDomain_ = false;
  std::vector<ops::CustomOpInfo> customOps_;  // those that the model uses
};

/// Our own ops in files.
inline constexpr std::string_view kOwnDomain = "sluice";

}  // namespace sluice::onnx
