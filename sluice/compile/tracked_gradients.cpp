#include "sluice/compile/tracked_gradients.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "sluice/base/error.h"
#include "sluice/base/near_names.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice::compiler {
namespace {

using optim::GradientTensorTrackingMethod;

bool isConvOrMatmul(const ir::Op& op) {
  return op.is(ops::kMatMul) || op.is(ops::kConv) || op.is(ops::kConvGradInput) ||
         op.is(ops::kConvGradWeight);
}

/// A set of ops of a graph.
class Marks {
 public:
  explicit Marks(const ir::Graph& graph) : marked_(graph.numIds(), false) {}
  bool has(ir::OpId id) const { return marked_[id.index()]; }
  bool hasAny(std::span<const ir::Value> values) const {
    return std::ranges::any_of(values, [&](ir::Value v) { return has(v.op); });
  }
  void add(ir::OpId id) { marked_[id.index()] = true; }

 private:
  std::vector<bool> marked_;
};

[[noreturn]] void refuseUnknown(std::string_view name, std::span<const NamedTensor> known) {
  std::vector<std::string_view> names;
  for (const NamedTensor& tensor : known) {
    names.push_back(tensor.name);
  }
  raise<InvalidArgument>(
      "automatic loss scaling: toTrackTensors: the model has no tensor '{}'{}; "
      "Model::getTensorNames() lists them",
      name,
      didYouMean(name, names));
}

}  // namespace

std::vector<ir::Value> trackedGradients(const ir::Graph& graph,
                                        const BackwardPass& backward,
                                        GradientTensorTrackingMethod method) {
  const auto pass = graph.order().subspan(backward.first, backward.end - backward.first);
  // An op that depends on the gradient of the loss makes a gradient. Other ops prepare operands.
  Marks reached(graph);
  Marks used(graph);
  reached.add(backward.lossGradient.op);
  for (const ir::Value v : backward.weightGradients) {
    used.add(v.op);
  }
  for (const ir::OpId id : pass) {
    const ir::Op& op = graph.op(id);
    if (reached.hasAny(op.inputs)) {
      reached.add(id);
    }
    for (const ir::Value v : op.inputs) {
      used.add(v.op);
    }
  }
  const bool all = method == GradientTensorTrackingMethod::AllNonViewChangingGradientTensors;
  std::vector<ir::Value> tracked;
  for (const ir::OpId id : pass) {
    const ir::Op& op = graph.op(id);
    const bool wanted = all ? !op.def->traits.view : isConvOrMatmul(op);
    if (!wanted || !reached.has(id) || !used.has(id)) {
      continue;
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.outputs[i].dtype == DType::F16) {
        tracked.push_back(op.out(i));
      }
    }
  }
  if (tracked.empty()) {
    raise<InvalidArgument>(
        "automatic loss scaling: the model has no gradient in float16 {}, which is what it watches",
        all ? "that is no view" : "of a convolution or matrix product");
  }
  return tracked;
}

std::vector<ir::Value> trackedGradients(const ir::Graph& graph,
                                        std::span<const NamedTensor> tensors,
                                        std::span<const ir::Value> gradients) {
  std::vector<ir::Value> tracked;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ir::Value gradient = gradients[i];
    if (!gradient.valid()) {
      raise<InvalidArgument>(
          "automatic loss scaling: toTrackTensors: '{}' has no gradient: no trained weight is "
          "before it, or the loss does not depend on it",
          tensors[i].name);
    }
    if (graph.type(gradient).dtype != DType::F16) {
      raise<InvalidArgument>(
          "automatic loss scaling: toTrackTensors: the gradient of '{}' is {}, and only those in "
          "float16 are watched",
          tensors[i].name,
          graph.type(gradient).str());
    }
    if (std::ranges::find(tracked, gradient) == tracked.end()) {
      tracked.push_back(gradient);
    }
  }
  return tracked;
}

std::vector<NamedTensor> trackedTensors(const ir::Graph& graph,
                                        std::span<const NamedTensor> known,
                                        const optim::LossScalingOptions& options) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : options.toTrackTensors) {
    const std::size_t before = tensors.size();
    if (const auto found = std::ranges::find(known, name, &NamedTensor::name);
        found != known.end()) {
      tensors.push_back(*found);
      continue;
    }
    for (const ir::OpId id : graph.order()) {
      const ir::Op& op = graph.op(id);
      if (op.is(ir::kVariable) && op.attrs.text("var") == name) {
        tensors.push_back({name, op.out()});
      }
    }
    if (tensors.size() == before) {
      refuseUnknown(name, known);
    }
  }
  return tensors;
}

}  // namespace sluice::compiler
