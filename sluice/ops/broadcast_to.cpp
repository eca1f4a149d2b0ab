// broadcast_to: repeats axes of extent 1 (and leading axes) to a given shape.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "shape", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  Shape shape(op.attrs.integers("shape"));
  if (broadcast(op.inputs[0].shape, shape) != shape) {
    raise<InvalidArgument>(
        "broadcast_to: {} cannot be broadcast to {}", op.inputs[0].shape.str(), shape.str());
  }
  return {{op.inputs[0].dtype, std::move(shape)}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {sumTo(g.b, g.grad(), g.op.inputs[0].shape)};
}

void reference(const ir::KernelArgs& args) {
  const BroadcastIndex index(args.op.inputs[0].shape, args.op.outputs[0].shape);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = in[static_cast<std::size_t>(index(static_cast<std::int64_t>(i)))];
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Expand", 8}};

}  // namespace

constinit const ir::OpDef kBroadcastTo{.name = "broadcast_to",
                                       .attrs = kAttrs,
                                       .infer = infer,
                                       .grad = grad,
                                       .reference = reference,
                                       .traits = kElementwise,
                                       .onnx = kOnnx};

Value broadcastTo(GraphBuilder& b, Value x, const Shape& shape) {
  return b.shape(x) == shape ? x : b.add(kBroadcastTo, {x}, {{"shape", shape.dims()}});
}

}  // namespace sluice::ops
