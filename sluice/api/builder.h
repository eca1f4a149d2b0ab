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
#include <vector>

#include "sluice/ir/graph_builder.h"
#include "sluice/nn/parameter.h"
#include "sluice/onnx/import.h"
#include "sluice/ops/ops.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice {

using TensorId = std::string;

class Builder;

/// Ops made while it lives have one field of their placement set; the previous value comes back.
class PlacementScope {
 public:
  PlacementScope(ir::GraphBuilder& builder, std::int32_t ir::Placement::*field, std::int32_t number)
      : saved_(builder) {
    builder.place.*field = number;
  }

 private:
  ir::AnnotationScope saved_;
};

struct GemmOptions {
  float alpha = 1.0F;
  float beta = 1.0F;
  bool transA = false;
  bool transB = false;
};

struct SliceRange {
  std::int64_t axis = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

/// The statistics and factors of batchnormalization, one per channel each.
struct BatchNormTensors {
  TensorId scale;
  TensorId bias;
  TensorId mean;
  TensorId variance;
};

/// ONNX's ops. Each throws InvalidArgument for an unknown tensor or one that does not fit; the
/// graph is then as before.
class AiOnnx {
 public:
  explicit AiOnnx(Builder& builder) : b_(builder) {}
  using Ints = std::vector<std::int64_t>;

  /// Any op of opset 17 by its ONNX name: its operands (an empty id leaves one out), attributes by
  /// their ONNX names, and how many results are wanted. What fixes a shape or an axis must be a
  /// constant or an initialized tensor.
  std::vector<TensorId> node(std::string_view op,
                             const std::vector<TensorId>& inputs,
                             std::vector<ir::NamedAttr> attrs = {},
                             std::size_t outputs = 1);

  TensorId abs(const TensorId& x);
  TensorId add(const TensorId& x, const TensorId& y);
  TensorId averagepool(const TensorId& x, const ops::PoolOptions& options);
  /// The inference form.
  TensorId batchnormalization(const TensorId& x,
                              const BatchNormTensors& tensors,
                              double epsilon = 1e-5);
  TensorId cast(const TensorId& x, DType to);
  TensorId clip(const TensorId& x, double min, double max);
  TensorId concat(const std::vector<TensorId>& parts, std::int64_t axis);
  /// An empty bias: none.
  TensorId conv(const TensorId& x,
                const TensorId& w,
                const ops::ConvOptions& options = {},
                const TensorId& bias = {});
  TensorId div(const TensorId& x, const TensorId& y);
  TensorId dropout(const TensorId& x, double ratio = 0.5);
  TensorId exp(const TensorId& x);
  /// A matrix: the axes before `axis`, and those from it on.
  TensorId flatten(const TensorId& x, std::int64_t axis = 1);
  TensorId gather(const TensorId& x, const TensorId& indices, std::int64_t axis = 0);
  /// alpha a b + beta c; an empty c: none.
  TensorId gemm(const TensorId& x,
                const TensorId& y,
                const TensorId& c = {},
                const GemmOptions& options = {});
  TensorId globalaveragepool(const TensorId& x);
  TensorId identity(const TensorId& x);
  TensorId log(const TensorId& x);
  TensorId logsoftmax(const TensorId& x, std::int64_t axis = -1);
  TensorId matmul(const TensorId& x, const TensorId& y);
  TensorId maxpool(const TensorId& x, const ops::PoolOptions& options);
  TensorId mul(const TensorId& x, const TensorId& y);
  TensorId neg(const TensorId& x);
  TensorId pow(const TensorId& x, const TensorId& y);
  TensorId reducemax(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducemean(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducesum(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId relu(const TensorId& x);
  /// 0 keeps an extent, one -1 takes what remains.
  TensorId reshape(const TensorId& x, const Ints& shape);
  TensorId sigmoid(const TensorId& x);
  TensorId slice(const TensorId& x, const std::vector<SliceRange>& ranges);
  TensorId softmax(const TensorId& x, std::int64_t axis = -1);
  std::vector<TensorId> split(const TensorId& x, const Ints& sizes, std::int64_t axis = 0);
  TensorId sqrt(const TensorId& x);
  TensorId squeeze(const TensorId& x, const Ints& axes = {});
  TensorId sub(const TensorId& x, const TensorId& y);
  TensorId tanh(const TensorId& x);
  TensorId transpose(const TensorId& x, const Ints& perm = {});
  TensorId unsqueeze(const TensorId& x, const Ints& axes);
  TensorId where(const TensorId& condition, const TensorId& x, const TensorId& y);

 private:
  Builder& b_;
};

struct NllLossOptions {
  ops::Reduction reduction = ops::Reduction::Mean;
  std::int64_t ignoreIndex = -100;
  bool inputIsLogProbability = false;
};

/// Graphcore's own ops.
class AiGraphcore {
 public:
  explicit AiGraphcore(Builder& builder) : b_(builder) {}

  TensorId detach(const TensorId& x);
  TensorId gelu(const TensorId& x);
  TensorId groupnormalization(const TensorId& x,
                              const TensorId& scale,
                              const TensorId& bias,
                              std::int64_t groups,
                              double epsilon = 1e-5);
  TensorId identityloss(const TensorId& x, ops::Reduction reduction = ops::Reduction::Mean);
  /// lambda |x|, reduced.
  TensorId l1loss(const TensorId& x,
                  double lambda = 1.0,
                  ops::Reduction reduction = ops::Reduction::Mean);
  TensorId nllloss(const TensorId& probabilities,
                   const TensorId& labels,
                   const NllLossOptions& options = {});
  TensorId nop(const TensorId& x);

 private:
  Builder& b_;
};

class Builder {
 public:
  explicit Builder(std::string name = "main") : graph_(std::move(name)), b_(graph_) {}
  /// A model of a file: its tensors have the ids that they have there.
  explicit Builder(onnx::ImportedModel model);
  ~Builder() = default;
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

  /// After the fact, for the op that made a tensor, or for all ops made while the scope lives.
  /// Negative numbers are an InvalidArgument.
  void pipelineStage(const TensorId& id, std::int64_t stage);
  [[nodiscard]] PlacementScope pipelineStage(std::int64_t stage);
  void virtualGraph(const TensorId& id, std::int64_t device);
  [[nodiscard]] PlacementScope virtualGraph(std::int64_t device);
  void executionPhase(const TensorId& id, std::int64_t phase);
  [[nodiscard]] PlacementScope executionPhase(std::int64_t phase);

  const Shape& getTensorShape(const TensorId& id) const { return graph_.type(value(id)).shape; }
  DType getTensorDtype(const TensorId& id) const { return graph_.type(value(id)).dtype; }
  bool contains(const TensorId& id) const { return tensors_.contains(id); }
  /// The tensor in graph(); throws InvalidArgument for an unknown one.
  ir::Value value(const TensorId& id) const;
  const ir::Graph& graph() const { return graph_; }
  std::vector<TensorId> tensorIds() const;
  /// The state that the models of this graph share; they set it.
  const std::shared_ptr<nn::StateStore>& store() const { return store_; }
  void setStore(std::shared_ptr<nn::StateStore> store) { store_ = std::move(store); }

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
  TensorId freeName(std::string_view stem) const;
  TensorId nameFor(const std::string& wanted, std::string_view stem) const;
  void place(const TensorId& id, std::int32_t ir::Placement::*field, std::int32_t number);

  ir::Graph graph_;
  ir::GraphBuilder b_;
  std::map<TensorId, Made, std::less<>> tensors_;
  std::shared_ptr<nn::StateStore> store_;
};

}  // namespace sluice
