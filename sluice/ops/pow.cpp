// pow: x to the power of y with broadcasting. Integers wrap; a negative integer power is 0 unless
// the base is 1 or -1. The gradient of the exponent is 0 where the base is not positive.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

template <class W>
W power(W x, W y) {
  if constexpr (std::is_same_v<W, double>) {
    return std::pow(x, y);
  } else {
    const bool odd = static_cast<std::uint64_t>(y) % 2 == 1;
    if constexpr (std::is_same_v<W, std::int64_t>) {
      if (y < 0) {
        const bool unit = x == 1 || x == -1;
        return unit ? (odd ? x : 1) : 0;
      }
    }
    std::uint64_t result = odd ? static_cast<std::uint64_t>(x) : 1;
    auto factor = static_cast<std::uint64_t>(x);
    for (auto rest = static_cast<std::uint64_t>(y) / 2; rest != 0; rest /= 2) {
      factor *= factor;
      result *= rest % 2 == 1 ? factor : 1;
    }
    return static_cast<W>(result);
  }
}

Value gradOfBase(ir::GradContext& g) {
  const Value exponent = g.input(1);
  const Value one = g.b.scalar(g.op.inputs[1].dtype, 1.0);
  // Where the exponent is 0 the power is constant, also at x = 0, where 0 * x^-1 would be NaN.
  const Value isZero = equal(g.b, exponent, g.b.scalar(g.op.inputs[1].dtype, 0.0));
  const Value lowered = where(g.b, isZero, exponent, sub(g.b, exponent, one));
  const Value slope = mul(g.b, exponent, pow(g.b, g.input(0), lowered));
  return sumTo(g.b, mul(g.b, g.grad(), slope), g.op.inputs[0].shape);
}

Value gradOfExponent(ir::GradContext& g) {
  const Value base = g.input(0);
  const Value zero = g.b.scalar(g.op.inputs[0].dtype, 0.0);
  const Value positive = greater(g.b, base, zero);
  const Value slope = where(g.b, positive, mul(g.b, g.output(0), log(g.b, base)), zero);
  return sumTo(g.b, mul(g.b, g.grad(), slope), g.op.inputs[1].shape);
}

std::vector<Value> grad(ir::GradContext& g) {
  return {g.needs(0) ? gradOfBase(g) : Value(), g.needs(1) ? gradOfExponent(g) : Value()};
}

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return power(x, y); });
}

constexpr ir::OnnxName kOnnx[] = {{"Pow", 1}, {"Pow", 7}, {"Pow", 12}};

}  // namespace

constinit const ir::OpDef kPow{.name = "pow",
                               .minInputs = 2,
                               .maxInputs = 2,
                               .infer = inferBinary<Accepts::Numeric>,
                               .grad = grad,
                               .gradReads = {.inputs = 0b11, .outputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value pow(GraphBuilder& b, Value x, Value y) {
  return b.add(kPow, {x, y});
}

}  // namespace sluice::ops
