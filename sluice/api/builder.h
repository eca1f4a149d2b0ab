// Builder: graphs op by op with PopART's names. Tensors are known by unique strings; ops come from
// two sets, aiOnnx() with ONNX's names and defaults and aiGraphcore(). Placements are recorded for
// the virtualGraphMode to read. trainingModel(builder, loss, options, optimizer) and
// inferenceModel(builder, options) run the graph.
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

#include "sluice/api/builder_graphcore_ops.h"
#include "sluice/api/builder_ops.h"
#include "sluice/ir/graph_builder.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/state_link.h"
#include "sluice/onnx/import.h"
#include "sluice/ops/custom_op.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice {

/// Ops made while it lives have one field of their placement set; the previous value comes back.
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

class Builder {
 public:
  explicit Builder(std::string name = "main") : graph_(std::move(name)), b_(graph_) {}
  /// A model of a file: its tensors have the ids that they have there.
  explicit Builder(onnx::ImportedModel model);
  ~Builder() { link_->end(); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// A value that the host gives for every micro-batch. Without a name it gets one; a name that is
  /// taken is an InvalidArgument.
  TensorId addInputTensor(const TensorType& type, const std::string& name = "");
  /// A weight that starts with this value; trained if it is of a float type.
  TensorId addInitializedInputTensor(const HostTensor& value, const std::string& name = "");
  /// A value that never changes.
  TensorId addConstant(const HostTensor& value, const std::string& name = "");
  /// Marks a tensor as a result; its name is the output's.
  void addOutputTensor(const TensorId& id);
  /// The graph as the bytes of an ONNX model, with the weights as they are now.
  std::string getModelProto() const;

  AiOnnx aiOnnx() { return AiOnnx(*this); }
  AiGraphcore aiGraphcore() { return AiGraphcore(*this); }
  /// An op of a library that was loaded with loadCustomOps; throws what nn::customOp throws.
  std::vector<TensorId> customOp(const std::vector<TensorId>& inputs, const ops::CustomOpUse& use);

  /// After the fact, for the op that made a tensor, or for all ops made while the scope lives.
  /// Negative numbers are an InvalidArgument.
  void pipelineStage(const TensorId& id, std::int64_t stage);
  [[nodiscard]] PlacementScope pipelineStage(std::int64_t stage);
  void virtualGraph(const TensorId& id, std::int64_t device);
  [[nodiscard]] PlacementScope virtualGraph(std::int64_t device);
  void executionPhase(const TensorId& id, std::int64_t phase);
  [[nodiscard]] PlacementScope executionPhase(std::int64_t phase);
  /// Whether the tensor stays on its device while it is not needed, whatever the options say of its
  /// class and size. Comes behind the calls above that place its op.
  void outputTensorLocation(const TensorId& id, bool onChip);

  const Shape& getTensorShape(const TensorId& id) const { return graph_.type(value(id)).shape; }
  DType getTensorDtype(const TensorId& id) const { return graph_.type(value(id)).dtype; }
  bool contains(const TensorId& id) const { return tensors_.contains(id); }
  /// The tensor in graph(); throws InvalidArgument for an unknown one.
  ir::Value value(const TensorId& id) const;
  const ir::Graph& graph() const { return graph_; }
  std::vector<TensorId> tensorIds() const;
  /// The state that the models of this graph share; null: there is none yet.
  std::shared_ptr<nn::StateStore> store() const { return link_->store(); }
  /// What models keep of the Builder and may outlive it.
  const std::shared_ptr<nn::StateLink>& link() const { return link_; }

 private:
  friend class AiOnnx;
  friend class AiGraphcore;

  struct Made {
    ir::Value value;
    std::vector<ir::OpId> ops;  ///< everything that was appended for it
  };

  /// Runs `append` and names what it returns after the op.
  std::vector<TensorId> makeMany(std::string_view op,
                                 const std::function<std::vector<ir::Value>()>& append);
  TensorId make(std::string_view op, const std::function<ir::Value()>& append);
  struct OpCall {
    std::string_view op;
    std::vector<OpOperand> inputs = {};
    std::vector<ir::NamedAttr> attrs = {};
    std::size_t outputs = 1;
    std::string_view domain = "";
    std::vector<std::pair<std::string_view, const ir::Graph*>> bodies = {};
  };
  /// The op as the importer of models translates it.
  std::vector<TensorId> translate(OpCall call);
  TensorId freeName(std::string_view stem) const;
  TensorId nameFor(const std::string& wanted, std::string_view stem) const;
  void place(const TensorId& id, std::int32_t ir::Placement::*field, std::int32_t number);

  ir::Graph graph_;
  ir::GraphBuilder b_;
  std::map<TensorId, Made, std::less<>> tensors_;
  std::shared_ptr<nn::StateLink> link_ = std::make_shared<nn::StateLink>();
};

}  // namespace sluice
