// GraphImporter: walks a model's nodes in order and appends their translations to one Graph. Bodies
// of If, Loop and Scan and the bodies of functions are inlined; names are looked up from the inside
// out. Internal to this module.
#pragma once

#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sluice/ir/graph_builder.h"
#include "sluice/onnx/import.h"
#include "sluice/onnx/node.h"
#include "sluice/onnx/proto.h"

namespace sluice::onnx {

/// The names of one graph or function body. A tensor is a value, or an initializer that is not read
/// yet: whoever reads it decides whether it is a weight, state, or both.
struct Scope {
  struct Tensor {
    Value value;  ///< as a weight or constant
    const pb::TensorProto* initializer = nullptr;
    std::string alias = {};  ///< the output of the Identity that the initializer went through
    Value buffer = {};       ///< as state
  };
  Scope* parent = nullptr;
  std::unordered_map<std::string, Tensor> tensors = {};
  std::map<std::string, std::int64_t, std::less<>> opsets = {};
  const ir::Attrs* callAttrs = nullptr;  ///< of the function's call, for references to them
};

class GraphImporter {
 public:
  GraphImporter(const pb::ModelProto& model,
                const ImportOptions& options,
                std::filesystem::path folder);

  ImportedModel run();

  // For nodes.
  ir::GraphBuilder& builder() { return builder_; }
  const ImportOptions& options() const { return options_; }
  /// nullptr when no scope knows the name.
  Scope::Tensor* find(Scope& scope, const std::string& name);
  /// The tensor as a value; an initializer becomes a weight or a constant when first read.
  Value read(Scope::Tensor& tensor);
  /// The tensor, called `name`, as state that takes no gradient, unless it depends on inputs.
  Value readBuffer(Scope::Tensor& tensor, const std::string& name);
  HostTensor initializerValue(const pb::TensorProto& proto) const;
  /// Its value if it does not depend on inputs; else the inputs it depends on are in `inputs`.
  std::optional<HostTensor> evaluate(Value value, std::vector<std::string>& inputs);
  /// Whether evaluate would give nothing; quick, however large the graph.
  bool isComputed(Value value);
  /// Keeps a function alive while its bodies are used.
  const pb::FunctionProto& keep(pb::FunctionProto function);
  // Each adds to what the model has asked for so far, and throws Unsupported above the limit.
  void countSequence(std::size_t elements);
  void countConstant(double bytes);
  void countWork(double work);
  std::vector<Value> inlineGraph(const pb::GraphProto& graph,
                                 std::span<const Value> inputs,
                                 Scope& parent);
  std::vector<Value> inlineFunction(const pb::FunctionProto& function,
                                    std::span<const std::optional<Value>> inputs,
                                    const ir::Attrs& attrs);
  const pb::FunctionProto* findFunction(const std::string& domain, const std::string& op) const;
  ir::Attrs attributes(const pb::NodeProto& node, const Scope& scope) const;

 private:
  /// A statistic that is computed from weights, and the op that stands for it until all readers of
  /// the weights are known.
  struct Pending {
    ir::OpId op;
    std::string name;
  };

  void countBody();
  void readOpsets();
  /// Notes the names that batch norms read as statistics.
  void findStatistics(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes);
  /// The initializer under another name, if that is all that the node makes.
  const Scope::Tensor* aliased(const pb::NodeProto& node, Scope& scope);
  Value addVariable(std::string name, HostTensor value, ir::VariableRole role, bool trainable);
  std::string weightName(const Scope::Tensor& tensor) const;
  Value bufferOf(Value value, const std::string& name);
  /// The trainable weights that a value depends on; whether it depends on other variables.
  std::set<std::string> weightsOf(Value value, bool& others) const;
  /// Weights that only statistics read become state; statistics of others get state of their own.
  void settleStatistics();
  std::unordered_set<ir::OpId> opsForStatistics() const;
  /// Throws InvalidArgument for an option that names no input of the model.
  void requireInputs(const auto& given, std::string_view option) const;
  /// Throws InvalidArgument for a pattern that no initializer has the name of.
  void requireInitializers(std::span<const std::string> patterns, std::string_view option) const;
  bool isFrozen(const pb::TensorProto& initializer) const;
  bool isBuffer(const pb::TensorProto& initializer) const;
  /// Throws InvalidArgument for a value of a dimension that no input has.
  void requireDims() const;
  Value declareInput(const pb::ValueInfoProto& info);
  void declareInputs(Scope& scope);
  void declareInitializers(const pb::GraphProto& graph, Scope& scope);
  TensorType inputType(const pb::ValueInfoProto& info) const;
  /// As the file has it, with values for symbolic dimensions; `what` is the word of messages.
  TensorType declaredType(const pb::ValueInfoProto& info, std::string_view what) const;
  /// The types that the file gives the results of a node; empty if it does not give them all.
  std::vector<TensorType> declaredResults(const pb::NodeProto& node);
  void importNodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes, Scope& scope);
  void importNode(const pb::NodeProto& node, Scope& scope);
  std::vector<Value> translate(const pb::NodeProto& node, Scope& scope);

  const pb::ModelProto& model_;
  const ImportOptions& options_;
  std::filesystem::path folder_;
  ir::Graph graph_;
  ir::GraphBuilder builder_;
  Scope main_;
  std::unordered_map<Value, HostTensor> known_;  // results of evaluate
  std::unordered_set<std::uint64_t> computed_;   // ops that depend on inputs or random numbers
  std::size_t classified_ = 0;                   // ops of the order that computed_ knows
  std::unordered_map<const pb::TensorProto*, Value> initializers_;  // bodies run several times
  std::map<std::pair<const pb::TensorProto*, std::string>, Value> buffers_;  // also by alias
  std::unordered_set<std::string> statistics_;  // names that batch norms read as such
  std::vector<Pending> pending_;
  std::list<pb::FunctionProto> functions_;
  std::unordered_map<std::string, const pb::ValueInfoProto*> declared_;  // when first asked for
  double constantBytes_ = 0;
  double constantWork_ = 0;
  std::vector<std::string> names_;  // tensors of the main graph in order
  int depth_ = 0;
  std::size_t numBodies_ = 0;
  std::size_t sequenceElements_ = 0;
};

}  // namespace sluice::onnx
