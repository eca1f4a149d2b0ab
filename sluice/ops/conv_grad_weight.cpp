// conv_grad_weight: the gradient of conv's weight from (x, dy). Its own gradients are
// conv_grad_input and conv.
#include "sluice/ops/conv.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 5> kAttrs = {
    {kConvAttrs[0],
     kConvAttrs[1],
     kConvAttrs[2],
     kConvAttrs[3],
     {.name = "weightShape", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireSameDType(op);
  convDims(op);
  return {{op.inputs[0].dtype, Shape(op.attrs.integers("weightShape"))}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const ConvOptions options = convOptions(g.op);
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    grads[0] = convGradInput(g.b, g.grad(), g.input(1), g.op.inputs[0].shape, options);
  }
  if (g.needs(1)) {
    grads[1] = conv(g.b, g.input(0), g.grad(), options);
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  referenceConv(args, ConvSum::Weight);
}

}  // namespace

constinit const ir::OpDef kConvGradWeight{.name = "conv_grad_weight",
                                          .minInputs = 2,
                                          .maxInputs = 2,
                                          .attrs = kAttrs,
                                          .infer = infer,
                                          .grad = grad,
                                          .gradReads = {.inputs = 0b11},
                                          .cost = costConv,
                                          .reference = reference};

Value convGradWeight(
    GraphBuilder& b, Value x, Value dy, const Shape& weightShape, const ConvOptions& options) {
  return b.add(kConvGradWeight,
               {x, dy},
               {{"strides", options.strides},
                {"pads", options.pads},
                {"dilations", options.dilations},
                {"groups", options.groups},
                {"weightShape", weightShape.dims()}});
}

}  // namespace sluice::ops
