// mod: the remainder of x / y with broadcasting, with the sign of y or (fmod) of x. An integer's
// remainder by zero is 0.
#include <array>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{{.name = "fmod", .kind = ir::AttrKind::Bool}}};

std::vector<Value> grad(ir::GradContext& g) {
  // x - mod is a whole multiple of y, the same one around x.
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    grads[0] = sumTo(g.b, g.grad(), g.op.inputs[0].shape);
  }
  if (g.needs(1)) {
    const Value multiple = round(g.b, div(g.b, sub(g.b, g.input(0), g.output(0)), g.input(1)));
    grads[1] = neg(g.b, sumTo(g.b, mul(g.b, g.grad(), multiple), g.op.inputs[1].shape));
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  if (args.op.attrs.flag("fmod")) {
    referenceBinary(args, [](auto x, auto y) { return truncatedRemainder(x, y); });
  } else {
    referenceBinary(args, [](auto x, auto y) { return flooredRemainder(x, y); });
  }
}

constexpr ir::OnnxName kOnnx[] = {{"Mod", 10}, {"Mod", 13}};

}  // namespace

constinit const ir::OpDef kMod{.name = "mod",
                               .minInputs = 2,
                               .maxInputs = 2,
                               .attrs = kAttrs,
                               .infer = inferBinary<Accepts::Numeric>,
                               .grad = grad,
                               .gradReads = {.inputs = 0b11, .outputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value mod(GraphBuilder& b, Value x, Value y, bool signOfX) {
  return b.add(kMod, {x, y}, {{"fmod", signOfX}});
}

}  // namespace sluice::ops
