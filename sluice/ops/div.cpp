// div: x / y with broadcasting. Integers truncate toward zero; an integer divided by zero is 0, and
// the one quotient that does not fit (lowest / -1) wraps.
#include <cstdint>
#include <type_traits>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  // d(x/y) = dx / y - (dy / y) (x/y): both share one quotient.
  const Value scaled = div(g.b, g.grad(), g.input(1));
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    grads[0] = sumTo(g.b, scaled, g.op.inputs[0].shape);
  }
  if (g.needs(1)) {
    grads[1] = neg(g.b, sumTo(g.b, mul(g.b, scaled, g.output(0)), g.op.inputs[1].shape));
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return wrappedQuotient(x, y); });
}

constexpr ir::OnnxName kOnnx[] = {{"Div", 6}, {"Div", 7}};

}  // namespace

constinit const ir::OpDef kDiv{.name = "div",
                               .minInputs = 2,
                               .maxInputs = 2,
                               .infer = inferBinary<Accepts::Numeric>,
                               .grad = grad,
                               .gradReads = {.inputs = 0b10, .outputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value div(GraphBuilder& b, Value x, Value y) {
  return b.add(kDiv, {x, y});
}

}  // namespace sluice::ops
