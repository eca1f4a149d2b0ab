// elu: x where it is positive, else alpha (exp(x) - 1). alpha is not negative, so that the sign of
// the output is that of the input and the gradient needs only the output.
#include <array>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "alpha", .kind = ir::AttrKind::Real, .real = 1.0}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  if (!(op.attrs.real("alpha") >= 0.0)) {
    raise<InvalidArgument>("elu: alpha must not be negative, got {}", op.attrs.real("alpha"));
  }
  return inferUnary<Accepts::Floating>(op);
}

std::vector<Value> grad(ir::GradContext& g) {
  // For negative x the slope alpha exp(x) is y + alpha.
  const DType dtype = g.op.inputs[0].dtype;
  const Value y = g.output(0);
  const Value positive = greater(g.b, y, g.b.scalar(dtype, 0.0));
  const Value slope = add(g.b, y, g.b.scalar(dtype, g.op.attrs.real("alpha")));
  return {where(g.b, positive, g.grad(), mul(g.b, g.grad(), slope))};
}

void reference(const ir::KernelArgs& args) {
  const double alpha = args.op.attrs.real("alpha");
  referenceUnary(args, [alpha](auto value) {
    const auto x = static_cast<double>(value);
    return x > 0.0 ? x : alpha * std::expm1(x);
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Elu", 6}};

}  // namespace

constinit const ir::OpDef kElu{.name = "elu",
                               .attrs = kAttrs,
                               .infer = infer,
                               .grad = grad,
                               .gradReads = {.outputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value elu(GraphBuilder& b, Value x, double alpha) {
  return b.add(kElu, {x}, {{"alpha", alpha}});
}

}  // namespace sluice::ops
