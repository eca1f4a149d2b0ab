// where: x where the condition holds, else y; all three are broadcast together.
#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Boolean);
  if (op.inputs[1].dtype != op.inputs[2].dtype) {
    raise<InvalidArgument>("where: both values must have one element type, got {} and {}",
                           op.inputs[1].str(),
                           op.inputs[2].str());
  }
  return {{op.inputs[1].dtype, broadcastInputs(op)}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Value zero = g.b.scalar(g.op.inputs[1].dtype, 0.0);
  const Value condition = g.input(0);
  std::vector<Value> grads(3);
  if (g.needs(1)) {
    grads[1] = sumTo(g.b, where(g.b, condition, g.grad(), zero), g.op.inputs[1].shape);
  }
  if (g.needs(2)) {
    grads[2] = sumTo(g.b, where(g.b, condition, zero, g.grad()), g.op.inputs[2].shape);
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.outputs[0].shape;
  const BroadcastIndex choice(args.op.inputs[0].shape, shape);
  const BroadcastIndex first(args.op.inputs[1].shape, shape);
  const BroadcastIndex second(args.op.inputs[2].shape, shape);
  const auto condition = args.in<bool>(0);
  dispatch(args.op.inputs[1].dtype, [&]<class T>(T) {
    const auto x = args.in<T>(1);
    const auto y = args.in<T>(2);
    const auto out = args.out<T>(0);
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const bool takeFirst = condition[static_cast<std::size_t>(choice(i))];
      out[static_cast<std::size_t>(i)] = takeFirst ? x[static_cast<std::size_t>(first(i))]
                                                   : y[static_cast<std::size_t>(second(i))];
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Where", 9}};

}  // namespace

constinit const ir::OpDef kWhere{.name = "where",
                                 .minInputs = 3,
                                 .maxInputs = 3,
                                 .infer = infer,
                                 .grad = grad,
                                 .gradReads = {.inputs = 0b1},
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value where(GraphBuilder& b, Value condition, Value x, Value y) {
  return b.add(kWhere, {condition, x, y});
}

}  // namespace sluice::ops
