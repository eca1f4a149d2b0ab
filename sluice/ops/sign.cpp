// sign: -1, 0 or 1; NaN stays NaN. Its gradient is zero.
#include <cstdint>
#include <type_traits>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& /*g*/) {
  return {Value()};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) {
    using W = decltype(x);
    if constexpr (std::is_same_v<W, double> || std::is_same_v<W, std::int64_t>) {
      return notANumber(x) ? x : static_cast<W>((x > W{}) - (x < W{}));
    } else {
      return static_cast<W>(x == W{} ? 0 : 1);
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Sign", 9}};

}  // namespace

constinit const ir::OpDef kSign{.name = "sign",
                                .infer = inferUnary<Accepts::Numeric>,
                                .grad = grad,
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value sign(GraphBuilder& b, Value x) {
  return b.add(kSign, {x});
}

}  // namespace sluice::ops
