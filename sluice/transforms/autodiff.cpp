#include "sluice/transforms/autodiff.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/control_ops.h"
#include "sluice/transforms/differentiator.h"

namespace sluice::transforms {

using ir::Op;
using ir::OpId;
using ir::Value;

Differentiator::Differentiator(ir::Graph& graph, std::span<const Value> wrt)
    : graph_(graph), builder_(graph), forward_(graph.order().begin(), graph.order().end()) {
  needed_.insert(wrt.begin(), wrt.end());
  for (const OpId id : forward_) {
    const Op& op = graph.op(id);
    if (std::ranges::none_of(op.inputs, [&](Value v) { return needed_.contains(v); })) {
      continue;
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (isFloat(op.outputs[i].dtype)) {
        needed_.insert(op.out(i));
      }
    }
  }
}

void Differentiator::run() {
  for (auto id = forward_.rbegin(); id != forward_.rend(); ++id) {
    differentiateOp(*id);
  }
}

Value Differentiator::gradientOf(Value value) const {
  const auto found = sums_.find(value);
  return found == sums_.end() ? Value() : found->second;
}

void Differentiator::contribute(Value value, Value gradient) {
  const auto [sum, isFirst] = sums_.emplace(value, gradient);
  if (!isFirst) {
    sum->second = ops::add(builder_, sum->second, gradient);
  }
}

void Differentiator::differentiateOp(OpId id) {
  const Op& op = graph_.op(id);
  std::vector<Value> outputGrads;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    outputGrads.push_back(gradientOf(op.out(i)));
  }
  if (std::ranges::none_of(outputGrads, &Value::valid) ||
      std::ranges::none_of(op.inputs, [&](Value v) { return needs(v); })) {
    return;
  }
  builder_.place = op.place;
  builder_.place.pass = ir::Pass::Backward;
  builder_.scope = "grad/" + op.name + "/";
  if (op.is(ops::kLoop)) {
    differentiateLoop(op, outputGrads);
  } else if (op.is(ops::kBranch)) {
    differentiateBranch(op, outputGrads);
  } else {
    differentiateByRule(op, outputGrads);
  }
}

void Differentiator::differentiateByRule(const Op& op, std::span<const Value> outputGrads) {
  if (op.def->grad == nullptr) {
    raise<Unsupported>(
        "{} has no gradient, but the loss depends on it through op '{}'; use detach() if no "
        "gradient is meant to pass",
        op.def->name,
        op.name);
  }
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    outputs.push_back(op.out(i));
  }
  std::uint64_t needed = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (needs(op.inputs[i])) {
      needed |= std::uint64_t{1} << std::min<std::size_t>(i, 63);
    }
  }
  const std::vector<TensorType> types = graph_.inputTypes(op);
  ir::GradContext context(builder_, view(op, types), op.inputs, outputs, outputGrads, needed);
  const std::vector<Value> grads = op.def->grad(context);
  SLUICE_CHECK(grads.size() == op.inputs.size(),
               "the gradient of {} returned {} values for {} inputs",
               op.def->name,
               grads.size(),
               op.inputs.size());
  for (std::size_t i = grads.size(); i-- > 0;) {
    if (grads[i].valid() && needs(op.inputs[i])) {
      SLUICE_CHECK(graph_.type(grads[i]) == types[i],
                   "the gradient of input {} of {} is {}, expected {}",
                   i,
                   op.def->name,
                   graph_.type(grads[i]).str(),
                   types[i].str());
      contribute(op.inputs[i], grads[i]);
    }
  }
}

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
  ir::GraphBuilder& b = differentiator.builder();
  b.place = graph.op(loss.op).place;
  b.place.pass = ir::Pass::Backward;
  differentiator.contribute(loss, lossGrad.valid() ? lossGrad : b.scalar(type.dtype, 1.0));
  differentiator.run();
  Gradients grads;
  for (const Value v : wrt) {
    const Value grad = differentiator.gradientOf(v);
    grads.reached = grads.reached || grad.valid();
    grads.wrt.push_back(grad.valid() ? grad : b.constant(HostTensor(graph.type(v))));
  }
  for (const Value v : inner) {
    grads.inner.push_back(differentiator.gradientOf(v));
  }
  return grads;
}

}  // namespace sluice::transforms
