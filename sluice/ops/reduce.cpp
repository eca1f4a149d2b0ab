#include "sluice/ops/reduce.h"

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {

std::vector<bool> reducedAxes(const ir::OpView& op) {
  const std::int64_t rank = op.inputs[0].shape.rank();
  const std::vector<std::int64_t>& axes = op.attrs.integers("axes");
  std::vector<bool> reduced(static_cast<std::size_t>(rank), axes.empty());
  for (const std::int64_t axis : axes) {
    if (axis < -rank || axis >= rank) {
      raise<InvalidArgument>(
          "{}: axis {} is out of range for shape {}", op.def.name, axis, op.inputs[0].shape.str());
    }
    const auto i = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    if (reduced[i]) {
      raise<InvalidArgument>("{}: axis {} is given twice", op.def.name, axis);
    }
    reduced[i] = true;
  }
  return reduced;
}

Shape keptShape(const ir::OpView& op) {
  std::vector<std::int64_t> dims = op.inputs[0].shape.dims();
  const std::vector<bool> reduced = reducedAxes(op);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    dims[i] = reduced[i] ? 1 : dims[i];
  }
  return Shape(std::move(dims));
}

std::vector<TensorType> inferReduce(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Numeric);
  const std::vector<bool> reduced = reducedAxes(op);
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) {
      dims.push_back(op.inputs[0].shape.dims()[i]);
    } else if (op.attrs.flag("keepDims")) {
      dims.push_back(1);
    }
  }
  return {{op.inputs[0].dtype, Shape(std::move(dims))}};
}

std::vector<TensorType> inferReduceFloats(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  return inferReduce(op);
}

ir::Cost costReduce(const ir::OpView& op) {
  return {.flops = static_cast<double>(op.inputs[0].shape.elements()),
          .bytesRead = static_cast<double>(op.inputs[0].bytes()),
          .bytesWritten = static_cast<double>(op.outputs[0].bytes())};
}

ir::Value expandReduced(ir::GradContext& g, ir::Value value) {
  return broadcastTo(g.b, reshape(g.b, value, keptShape(g.op)), g.op.inputs[0].shape);
}

ir::Value gradOfExtreme(ir::GradContext& g) {
  const Shape kept = keptShape(g.op);
  const ir::Value extreme = reshape(g.b, g.output(0), kept);
  const ir::Value equals = cast(g.b, equal(g.b, g.input(0), extreme), g.op.inputs[0].dtype);
  const ir::Value count = reduceSum(g.b, equals, g.op.attrs.integers("axes"), true);
  return mul(g.b, equals, div(g.b, reshape(g.b, g.grad(), kept), count));
}

}  // namespace sluice::ops
