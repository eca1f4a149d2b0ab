// softmax: exp(x) / sum(exp(x)) along one axis, shifted by the maximum so that it cannot overflow.
#include "sluice/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {softmaxGrad(g.b, g.output(0), g.grad(), g.op.integer("axis"))};
}

void reference(const ir::KernelArgs& args) {
  const AxisDims d = axisDims(args.op);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* in = args.in<T>(0).data();
    T* out = args.out<T>(0).data();
    forEachLine(d, [&](std::int64_t first) {
      const auto x = [&](std::int64_t i) {
        return static_cast<double>(widen(in[first + i * d.inner]));
      };
      double top = -std::numeric_limits<double>::infinity();
      for (std::int64_t i = 0; i < d.extent; ++i) {
        top = std::max(top, x(i));
      }
      double sum = 0;
      for (std::int64_t i = 0; i < d.extent; ++i) {
        sum += std::exp(x(i) - top);
      }
      for (std::int64_t i = 0; i < d.extent; ++i) {
        out[first + i * d.inner] = narrow<T>(std::exp(x(i) - top) / sum);
      }
    });
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Softmax", 13}};

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
