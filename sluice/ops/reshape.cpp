// reshape: the same elements in row-major order under another shape.
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "shape", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  Shape shape(op.attrs.integers("shape"));
  if (shape.elements() != op.inputs[0].shape.elements()) {
    raise<InvalidArgument>("reshape: {} has {} elements and cannot become {}, which has {}",
                           op.inputs[0].shape.str(),
                           op.inputs[0].shape.elements(),
                           shape.str(),
                           shape.elements());
  }
  return {{op.inputs[0].dtype, std::move(shape)}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {reshape(g.b, g.grad(), g.op.inputs[0].shape)};
}

void reference(const ir::KernelArgs& args) {
  if (args.op.inputs[0].bytes() != 0) {
    std::memmove(args.outputs[0], args.inputs[0], args.op.inputs[0].bytes());
  }
}

constexpr ir::OnnxName kOnnx[] = {{"Reshape", 5}};

}  // namespace

constinit const ir::OpDef kReshape{.name = "reshape",
                                   .attrs = kAttrs,
                                   .infer = infer,
                                   .grad = grad,
                                   .reference = reference,
                                   .traits = {.view = true},
                                   .onnx = kOnnx};

Value reshape(GraphBuilder& b, Value x, const Shape& shape) {
  return b.shape(x) == shape ? x : b.add(kReshape, {x}, {{"shape", shape.dims()}});
}

}  // namespace sluice::ops
