// abs: the absolute value; the lowest integer wraps to itself.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/op_list.h"

namespace sluice::ops {
namespace {

template <class W>
W magnitude(W x) {
  if constexpr (std::is_same_v<W, double>) {
    return std::fabs(x);
  } else if constexpr (std::is_same_v<W, std::int64_t>) {
    return x < 0 ? wrappedNegative(x) : x;
  } else {
    return x;
  }
}

std::vector<Value> grad(ir::GradContext& g) {
  return {mul(g.b, g.grad(), sign(g.b, g.input(0)))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return magnitude(x); });
}

constexpr ir::OnnxName kOnnx[] = {{"Abs", 6}};

}  // namespace

constinit const ir::OpDef kAbs{.name = "abs",
                               .infer = inferUnary<Accepts::Numeric>,
                               .grad = grad,
                               .gradReads = {.inputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value abs(GraphBuilder& b, Value x) {
  return b.add(kAbs, {x});
}

}  // namespace sluice::ops
