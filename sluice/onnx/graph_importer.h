// GraphImporter: walks a model's nodes in order and appends their translations to one Graph. The
// bodies of If, Loop, Scan and functions are inlined; names are looked up from the innermost scope
// outwards. Internal to this module.
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

#include "sluice/ir/graph.h"
#include "sluice/onnx/files.h"
#include "sluice/onnx/node.h"
#include "sluice/onnx/proto.h"

namespace sluice::onnx {

/// The names of one graph or function body. A tensor is a value, or an initializer that was not
/// read yet. The nodes that read an initializer decide whether it is a weight, state, or both.
struct Scope {
  struct Tensor {
    Value value;  ///< as a weight or constant
    const pb::TensorProto* initializer = nullptr;
    std::string alias = {};  ///< output of the Identity that renames the initializer
    Value buffer = {};       ///< as state
  };
  Scope* parent = nullptr;
  std::unordered_map<std::string, Tensor> tensors = {};
  std::map<std::string, std::int64_t, std::less<>> opsets = {};
  const ir::Attrs* callAttrs = nullptr;  ///< attributes of the call, for references in the body
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
  /// The tensor with this name; nullptr if no scope has it.
  Scope::Tensor* find(Scope& scope, const std::string& name);
  /// The tensor as a value. An initializer becomes a weight or a constant when it is first read.
  Value read(Scope::Tensor& tensor);
  /// The tensor, whose name is `name`, as state without a gradient, unless it depends on inputs.
  Value readBuffer(Scope::Tensor& tensor, const std::string& name);
  /// The tensors of one proto share their elements, however often it is asked for.
  HostTensor tensorOf(const pb::TensorProto& proto);
  /// The value, if it does not depend on inputs; else nullopt, and `inputs` has the inputs that it
  /// depends on.
  std::optional<HostTensor> evaluate(Value value, std::vector<std::string>& inputs);
  /// Whether evaluate would return nullopt. It is fast however large the graph is.
  bool isComputed(Value value);
  /// Keeps a function alive while its bodies are used.
  const pb::FunctionProto& keep(pb::FunctionProto function);
  // Each adds to the total that the model has asked for so far. Throws Unsupported above the limit.
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
  ir::Attrs attributes(const pb::NodeProto& node, const Scope& scope);

 private:
  /// A statistic that is computed from weights, and the op that represents it until all readers of
  /// the weights are known.
  struct Pending {
    ir::OpId op;
    std::string name;
  };

  /// A body or function that runs or is called once more.
  void countBody(std::size_t bytesOfNames);
  /// What is read again whenever it does.
  void countBodyBytes(std::size_t bytes);
  void countBodyNode(const pb::NodeProto& node, const Scope& scope);
  void readOpsets();
  /// Notes the names that batch norms read as statistics.
  void findStatistics(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes);
  /// The initializer that the node only renames; nullptr if it does anything else.
  const Scope::Tensor* aliased(const pb::NodeProto& node, Scope& scope);
  Value addVariable(std::string name, HostTensor value, ir::VariableRole role, bool trainable);
  std::string weightName(const Scope::Tensor& tensor) const;
  Value bufferOf(Value value, const std::string& name);
  /// The trainable weights that a value depends on. Sets `others` if it depends on other variables.
  std::set<std::string> weightsOf(Value value, bool& others) const;
  /// Weights that only statistics read become state. A statistic of any other weight gets its own
  /// state.
  void settleStatistics();
  std::unordered_set<ir::OpId> opsForStatistics() const;
  /// Throws InvalidArgument for an option that names something other than an input of the model.
  void requireInputs(const auto& given, std::string_view option) const;
  /// Throws InvalidArgument for a pattern that matches no initializer.
  void requireInitializers(std::span<const std::string> patterns, std::string_view option) const;
  bool isFrozen(const pb::TensorProto& initializer) const;
  bool isBuffer(const pb::TensorProto& initializer) const;
  /// Throws InvalidArgument if the options give a value to a dimension that no input has.
  void requireDims() const;
  Value declareInput(const pb::ValueInfoProto& info);
  void declareInputs(Scope& scope);
  void declareInitializers(const pb::GraphProto& graph, Scope& scope);
  TensorType inputType(const pb::ValueInfoProto& info) const;
  /// The type in the file, with values for symbolic dimensions; `what` names it in messages.
  TensorType declaredType(const pb::ValueInfoProto& info, std::string_view what) const;
  /// The types of a node's results in the file; empty if the file does not have all of them.
  std::vector<TensorType> declaredResults(const pb::NodeProto& node);
  void importNodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes, Scope& scope);
  void importNode(const pb::NodeProto& node, Scope& scope);
  std::vector<Value> translate(const pb::NodeProto& node, Scope& scope);

  const pb::ModelProto& model_;
  const ImportOptions& options_;
  ir::Graph graph_;
  ir::GraphBuilder builder_;
  Scope main_;
  std::unordered_map<Value, HostTensor> known_;  // results of evaluate
  std::unordered_set<std::uint64_t> computed_;   // ops that depend on inputs or random numbers
  std::size_t classified_ = 0;                   // ids below were classified
  std::unordered_map<const pb::TensorProto*, Value> initializers_;  // bodies are inlined repeatedly
  std::unordered_map<const pb::TensorProto*, HostTensor> tensors_;  // of tensorOf
  ExternalFiles external_;
  std::map<std::pair<const pb::TensorProto*, std::string>, Value> buffers_;  // also by alias
  std::unordered_set<std::string> statistics_;  // names that batch norms read as statistics
  std::vector<Pending> pending_;
  std::list<pb::FunctionProto> functions_;
  std::unordered_map<std::string, const pb::ValueInfoProto*> declared_;  // filled when first needed
  std::map<std::pair<std::string, std::string>, const pb::FunctionProto*> ownFunctions_;
  std::unordered_map<std::string, int> sameNames_;  // variables that wanted this name
  double constantBytes_ = 0;
  double constantWork_ = 0;
  std::vector<std::string> names_;  // tensors of the main graph in order
  int depth_ = 0;
  std::size_t numBodies_ = 0;
  std::size_t bodyBytes_ = 0;
  std::unordered_map<const pb::NodeProto*, std::size_t> nodeBytes_;  // of nodes in bodies
  std::size_t sequenceElements_ = 0;
};

}  // namespace sluice::onnx
