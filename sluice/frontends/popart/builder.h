// Builder: builds a graph op by op, with PopART's names. Tensors are identified by unique strings.
// Ops come from two sets: aiOnnx(), with ONNX's names and defaults, and aiGraphcore(). Placements
// are recorded, and Options::virtualGraphMode says how they are used. trainingModel(builder, loss,
// options, optimizer) and inferenceModel(builder, options) run the graph.
//
//   Builder b;
//   const TensorId x = b.addInputTensor({DType::F32, Shape{4, 8}}, "x");
//   const auto stage = b.pipelineStage(1);
//   b.addOutputTensor(b.aiOnnx().relu(x));
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/frontends/popart/builder_graphcore_ops.h"
#include "sluice/frontends/popart/builder_ops.h"
#include "sluice/ir/graph.h"
#include "sluice/nn/module.h"
#include "sluice/nn/parameter.h"
#include "sluice/onnx/files.h"
#include "sluice/ops/custom_op.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice {

/// Sets one field of the placement of all ops made during its lifetime; then restores the previous
/// value.
class [[nodiscard]] PlacementScope {
 public:
  [[nodiscard]] PlacementScope(ir::GraphBuilder& builder,
                               std::int32_t ir::Placement::*field,
                               std::int32_t number)
      : saved_(builder) {
    builder.place.*field = number;
  }

 private:
  ir::AnnotationScope saved_;
};

/// An op by its name in the standard or in the vendor's domain.
struct OpCall {
  std::string_view op;
  std::vector<OpOperand> inputs = {};
  std::vector<ir::NamedAttr> attrs = {};
  std::size_t outputs = 1;
  std::string_view domain = "";
  /// Attributes that are graphs; these must not have weights.
  std::vector<std::pair<std::string_view, const ir::Graph*>> bodies = {};
  int opset = 17;  ///< of the default domain: which version of the op is meant
  /// Whether dropout drops, where the version of the op leaves it to the runtime.
  bool training = false;
  std::string_view name = "";  ///< how the ids of the results begin; empty: with the op's name
};

class Builder {
 public:
  explicit Builder(std::string name = "main") : graph_(std::move(name)), b_(graph_) {}
  /// Takes a model read from a file. Its tensors keep the ids that they have in the file.
  explicit Builder(onnx::ImportedModel model);
  ~Builder() { link_->end(); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// A value that the host feeds for every micro-batch. An empty name is replaced by a unique one.
  /// Throws InvalidArgument for a name that is taken.
  TensorId addInputTensor(const TensorType& type, const std::string& name = "");
  /// A weight that starts with this value. It is trained if its type is a float type.
  TensorId addInitializedInputTensor(const HostTensor& value, const std::string& name = "");
  /// A value that never changes.
  TensorId addConstant(const HostTensor& value, const std::string& name = "");
  /// Makes a tensor an output of the graph, under the tensor's own name.
  void addOutputTensor(const TensorId& id);
  /// The graph as the bytes of an ONNX model, with the current values of the weights: for other
  /// tools, or exactly, to be read back bit for bit.
  std::string getModelProto(onnx::Exact exact = onnx::Exact::No) const;
  /// The same with other options; values of weights that are given there count.
  std::string getModelProto(onnx::ExportOptions options) const;

  AiOnnx aiOnnx() { return AiOnnx(*this); }
  AiGraphcore aiGraphcore() { return AiGraphcore(*this); }
  /// Appends any op as the ONNX importer translates it, with the errors of aiOnnx().
  std::vector<TensorId> op(OpCall call);
  /// Adds an op from a library that was loaded with loadCustomOps. Throws what nn::customOp throws.
  std::vector<TensorId> customOp(const std::vector<TensorId>& inputs, const ops::CustomOpUse& use);

  /// Each of these places either the op that made a tensor, after the fact, or all ops made while
  /// the returned scope lives. Throws InvalidArgument for a negative number.
  void pipelineStage(const TensorId& id, std::int64_t stage);
  [[nodiscard]] PlacementScope pipelineStage(std::int64_t stage);
  void virtualGraph(const TensorId& id, std::int64_t device);
  [[nodiscard]] PlacementScope virtualGraph(std::int64_t device);
  void executionPhase(const TensorId& id, std::int64_t phase);
  [[nodiscard]] PlacementScope executionPhase(std::int64_t phase);
  /// Says whether the tensor stays on its device while it is not needed. This overrides what the
  /// options say for its class and size. Call it after the functions above that place the tensor's
  /// op.
  void outputTensorLocation(const TensorId& id, bool onChip);

  const Shape& getTensorShape(const TensorId& id) const { return graph_.type(value(id)).shape; }
  DType getTensorDtype(const TensorId& id) const { return graph_.type(value(id)).dtype; }
  bool contains(const TensorId& id) const { return tensors_.contains(id); }
  /// The value of a tensor in graph(). Throws InvalidArgument for an unknown id.
  ir::Value value(const TensorId& id) const;
  const ir::Graph& graph() const { return graph_; }
  std::vector<TensorId> tensorIds() const;
  /// The state that the models of this graph share; null as long as there is none.
  std::shared_ptr<nn::StateStore> store() const { return link_->store(); }
  /// The link that models keep to the Builder; it may outlive the Builder.
  const std::shared_ptr<nn::StateLink>& link() const { return link_; }

 private:
  friend class AiOnnx;
  friend class AiGraphcore;

  struct Made {
    ir::Value value;
    std::vector<ir::OpId> ops;  ///< all ops that were appended to make it
  };

  /// Runs `append` and names the values that it returns after the op.
  std::vector<TensorId> makeMany(std::string_view op,
                                 const std::function<std::vector<ir::Value>()>& append);
  TensorId make(std::string_view op, const std::function<ir::Value()>& append);
  TensorId freeName(std::string_view stem) const;
  TensorId nameFor(const std::string& wanted, std::string_view stem) const;
  void place(const TensorId& id, std::int32_t ir::Placement::*field, std::int32_t number);

  ir::Graph graph_;
  ir::GraphBuilder b_;
  std::map<TensorId, Made, std::less<>> tensors_;
  std::shared_ptr<nn::StateLink> link_ = std::make_shared<nn::StateLink>();
};

}  // namespace sluice

#pragma GCC visibility pop
