#include "sluice/transforms/autodiff.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "sluice/base/error.h"
#include "sluice/ir/graph_builder.h"
#include "sluice/ops/arithmetic_ops.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

/// Walks the forward ops backwards, collecting for each value the gradients of its uses.
class Differentiator {
 public:
  Differentiator(ir::Graph& graph, std::span<const Value> wrt)
      : graph_(graph), builder_(graph), forward_(graph.order().begin(), graph.order().end()) {
    // A value needs a gradient if it is asked for or depends, through floats, on one that is.
    needed_.insert(wrt.begin(), wrt.end());
    for (const OpId id : forward_) {
      const Op& op = graph.op(id);
      if (!std::ranges::any_of(op.inputs, [&](Value v) { return needed_.contains(v); })) {
        continue;
      }
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        if (isFloat(op.outputs[i].dtype)) {
          needed_.insert(op.out(i));
        }
      }
    }
  }

  void run(Value loss, Value lossGrad) {
    builder_.place = graph_.op(loss.op).place;
    builder_.place.pass = ir::Pass::Backward;
    if (!lossGrad.valid()) {
      lossGrad = builder_.scalar(graph_.type(loss).dtype, 1.0);
    }
    contributions_[loss].push_back(lossGrad);
    for (auto id = forward_.rbegin(); id != forward_.rend(); ++id) {
      differentiateOp(*id);
    }
  }

  /// The finished gradient of a value: its uses' contributions, added in op order.
  Value total(Value value) {
    const auto found = contributions_.find(value);
    if (found == contributions_.end()) {
      return {};
    }
    std::vector<Value>& parts = found->second;
    if (parts.size() > 1) {
      Value sum = parts.back();  // parts were found walking backwards
      // The earliest use comes last on the way back: there the others' parts have arrived.
      const ir::AnnotationScope scope(builder_);
      builder_.place = graph_.op(sum.op).place;
      builder_.place.pass = ir::Pass::Backward;
      for (std::size_t i = parts.size() - 1; i-- > 0;) {
        sum = ops::add(builder_, sum, parts[i]);
      }
      parts = {sum};
    }
    return parts.front();
  }

  Value zeros(Value like) { return builder_.constant(HostTensor(graph_.type(like))); }

 private:
  void differentiateOp(OpId id) {
    const Op& op = graph_.op(id);
    std::vector<Value> outputs;
    bool reached = false;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      outputs.push_back(op.out(i));
      reached = reached || contributions_.contains(op.out(i));
    }
    std::uint64_t needs = 0;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (needed_.contains(op.inputs[i])) {
        needs |= std::uint64_t{1} << std::min<std::size_t>(i, 63);
      }
    }
    if (!reached || needs == 0) {
      return;
    }
    builder_.place = op.place;
    builder_.place.pass = ir::Pass::Backward;
    builder_.scope = "grad/" + op.name + "/";
    std::vector<Value> outputGrads;
    outputGrads.reserve(outputs.size());
    for (const Value output : outputs) {
      outputGrads.push_back(total(output));
    }
    if (op.def->grad == nullptr) {
      raise<Unsupported>(
          "{} has no gradient, but the loss depends on it through op '{}'; use detach() if no "
          "gradient is meant to pass",
          op.def->name,
          op.name);
    }
    const std::vector<TensorType> types = graph_.inputTypes(op);
    ir::GradContext context(builder_, view(op, types), op.inputs, outputs, outputGrads, needs);
    const std::vector<Value> grads = op.def->grad(context);
    SLUICE_CHECK(grads.size() == op.inputs.size(),
                 "the gradient of {} returned {} values for {} inputs",
                 op.def->name,
                 grads.size(),
                 op.inputs.size());
    for (std::size_t i = grads.size(); i-- > 0;) {
      if (grads[i].valid() && needed_.contains(op.inputs[i])) {
        SLUICE_CHECK(graph_.type(grads[i]) == types[i],
                     "the gradient of input {} of {} is {}, expected {}",
                     i,
                     op.def->name,
                     graph_.type(grads[i]).str(),
                     types[i].str());
        contributions_[op.inputs[i]].push_back(grads[i]);
      }
    }
  }

  ir::Graph& graph_;
  ir::GraphBuilder builder_;
  std::vector<OpId> forward_;
  std::unordered_set<Value> needed_;
  std::unordered_map<Value, std::vector<Value>> contributions_;
};

}  // namespace

std::vector<Value> differentiate(ir::Graph& graph,
                                 Value loss,
                                 std::span<const Value> wrt,
                                 Value lossGrad) {
  return differentiateAlong(graph, loss, wrt, lossGrad, {}).wrt;
}

Gradients differentiateAlong(ir::Graph& graph,
                             Value loss,
                             std::span<const Value> wrt,
                             Value lossGrad,
                             std::span<const Value> inner) {
  const TensorType& type = graph.type(loss);
  if (!isFloat(type.dtype) || type.shape.elements() != 1 || type.shape.rank() != 0) {
    raise<InvalidArgument>(
        "the loss must be a float scalar, got {}; reduce it to a mean or a sum, "
        "or mark the loss with identityLoss",
        type.str());
  }
  for (const Value v : wrt) {
    if (!isFloat(graph.type(v).dtype)) {
      raise<InvalidArgument>("a gradient with respect to {} was asked for; only floats have one",
                             graph.type(v).str());
    }
  }
  Differentiator differentiator(graph, wrt);
  differentiator.run(loss, lossGrad);
  Gradients grads;
  for (const Value v : wrt) {
    const Value grad = differentiator.total(v);
    grads.wrt.push_back(grad.valid() ? grad : differentiator.zeros(v));
  }
  for (const Value v : inner) {
    grads.inner.push_back(differentiator.total(v));
  }
  return grads;
}

}  // namespace sluice::transforms
