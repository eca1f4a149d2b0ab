// clamp: x limited to [low, high]; NaN stays NaN. For integers the bounds are converted as by cast.
// The gradient passes strictly inside the bounds and needs only the output.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "low", .kind = ir::AttrKind::Real, .required = true},
     {.name = "high", .kind = ir::AttrKind::Real, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const double low = op.attrs.real("low");
  const double high = op.attrs.real("high");
  if (!(low <= high)) {
    raise<InvalidArgument>("clamp: low must not be above high, got [{}, {}]", low, high);
  }
  return inferUnary<Accepts::Numeric>(op);
}

std::vector<Value> grad(ir::GradContext& g) {
  const DType dtype = g.op.inputs[0].dtype;
  const Value y = g.output(0);
  const Value above = greater(g.b, y, g.b.scalar(dtype, g.op.attrs.real("low")));
  const Value below = less(g.b, y, g.b.scalar(dtype, g.op.attrs.real("high")));
  return {where(g.b, logicalAnd(g.b, above, below), g.grad(), g.b.scalar(dtype, 0.0))};
}

void reference(const ir::KernelArgs& args) {
  const DType dtype = args.op.inputs[0].dtype;
  const HostTensor low = HostTensor::full({dtype, Shape{}}, args.op.attrs.real("low"));
  const HostTensor high = HostTensor::full({dtype, Shape{}}, args.op.attrs.real("high"));
  dispatch(dtype, [&]<class T>(T) {
    const T least = low.data<T>()[0];
    const T most = high.data<T>()[0];
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto x = widen(in[i]);
      out[i] = x < widen(least) ? least : (widen(most) < x ? most : in[i]);
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Clip", 6}};

}  // namespace

constinit const ir::OpDef kClamp{.name = "clamp",
                                 .attrs = kAttrs,
                                 .infer = infer,
                                 .grad = grad,
                                 .gradReads = {.outputs = 0b1},
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value clamp(GraphBuilder& b, Value x, double low, double high) {
  return b.add(kClamp, {x}, {{"low", low}, {"high", high}});
}

}  // namespace sluice::ops
