// cast: x converted to another element type. Floats to integers truncate toward zero and saturate,
// NaN becomes 0; between integers the value wraps; to bool is "not zero".
#include <array>
#include <cstring>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "dtype", .kind = ir::AttrKind::Text, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  return {{dtypeAttr(op), op.inputs[0].shape}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {cast(g.b, g.grad(), g.op.inputs[0].dtype)};
}

void reference(const ir::KernelArgs& args) {
  if (args.op.inputs[0].bytes() == 0) {
    return;
  }
  HostTensor in(args.op.inputs[0]);
  std::memcpy(in.bytes(), args.inputs[0], in.byteCount());
  const HostTensor out = sluice::cast(in, args.op.outputs[0].dtype);
  std::memcpy(args.outputs[0], out.bytes(), out.byteCount());
}

constexpr ir::OnnxName kOnnx[] = {{"Cast", 6}, {"Cast", 9}};

}  // namespace

constinit const ir::OpDef kCast{.name = "cast",
                                .attrs = kAttrs,
                                .infer = infer,
                                .grad = grad,
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value cast(GraphBuilder& b, Value x, DType dtype) {
  if (b.dtype(x) == dtype) {
    return x;
  }
  return b.add(kCast, {x}, {{"dtype", name(dtype)}});
}

}  // namespace sluice::ops
