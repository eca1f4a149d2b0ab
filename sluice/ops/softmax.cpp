// softmax: exp(x) / sum(exp(x)) along one axis, shifted by the maximum so that it cannot overflow.
#include "sluice/ops/softmax.h"

#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/softmax_reference.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {softmaxGrad(g.b, g.output(0), g.grad(), g.op.integer("axis"))};
}

void reference(const ir::KernelArgs& args) {
  referenceSoftmax(args, [](double x, double sum) { return std::exp(x) / sum; });
}

constexpr ir::OnnxName kOnnx[] = {{"Softmax", 1}, {"Softmax", 11}, {"Softmax", 13}};

}  // namespace

AxisDims axisDims(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  AxisDims d;
  d.axis = op.integer("axis");
  if (d.axis < -shape.rank() || d.axis >= shape.rank()) {
    raise<InvalidArgument>(
        "{}: axis {} is out of range for shape {}", op.def.name, d.axis, shape.str());
  }
  d.axis += d.axis < 0 ? shape.rank() : 0;
  d.extent = shape[d.axis];
  for (std::int64_t i = 0; i < shape.rank(); ++i) {
    (i < d.axis ? d.outer : d.inner) *= i == d.axis ? 1 : shape[i];
  }
  return d;
}

std::vector<TensorType> inferSoftmax(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  axisDims(op);
  return {op.inputs[0]};
}

std::vector<TensorType> inferSoftmaxGrad(const ir::OpView& op) {
  if (op.inputs[0] != op.inputs[1]) {
    raise<InvalidArgument>("{}: the output and its gradient must have one type, got {} and {}",
                           op.def.name,
                           op.inputs[0].str(),
                           op.inputs[1].str());
  }
  return inferSoftmax(op);
}

constinit const ir::OpDef kSoftmax{.name = "softmax",
                                   .attrs = kSoftmaxAttrs,
                                   .infer = inferSoftmax,
                                   .grad = grad,
                                   .gradReads = {.outputs = 0b1},
                                   .cost = costPerInput<5>,
                                   .reference = reference,
                                   .onnx = kOnnx};

Value softmax(GraphBuilder& b, Value x, std::int64_t axis) {
  return b.add(kSoftmax, {x}, {{"axis", axis}});
}

}  // namespace sluice::ops
