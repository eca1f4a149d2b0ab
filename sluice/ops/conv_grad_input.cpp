// conv_grad_input: the gradient of conv's input from (w, dy); the transposed convolution. Its own
// gradients are conv and conv_grad_weight.
#include "sluice/ops/conv.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 5> kAttrs = {
    {kConvAttrs[0],
     kConvAttrs[1],
     kConvAttrs[2],
     kConvAttrs[3],
     {.name = "inputShape", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireSameDType(op);
  convDims(op);
  return {{op.inputs[0].dtype, Shape(op.attrs.integers("inputShape"))}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const ConvOptions options = convOptions(g.op);
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    grads[0] = convGradWeight(g.b, g.grad(), g.input(1), g.op.inputs[0].shape, options);
  }
  if (g.needs(1)) {
    grads[1] = conv(g.b, g.grad(), g.input(0), options);
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  referenceConv(args, ConvSum::Input);
}

}  // namespace

constinit const ir::OpDef kConvGradInput{.name = "conv_grad_input",
                                         .minInputs = 2,
                                         .maxInputs = 2,
                                         .attrs = kAttrs,
                                         .infer = infer,
                                         .grad = grad,
                                         .gradReads = {.inputs = 0b11},
                                         .cost = costConv,
                                         .reference = reference};

Value convGradInput(
    GraphBuilder& b, Value w, Value dy, const Shape& inputShape, const ConvOptions& options) {
  return b.add(kConvGradInput,
               {w, dy},
               {{"strides", options.strides},
                {"pads", options.pads},
                {"dilations", options.dilations},
                {"groups", options.groups},
                {"inputShape", inputShape.dims()}});
}

}  // namespace sluice::ops
