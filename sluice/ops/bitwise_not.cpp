// bitwise_not: every bit of the integer x inverted.
#include <type_traits>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) {
    if constexpr (std::is_integral_v<decltype(x)> && !std::is_same_v<decltype(x), bool>) {
      return static_cast<decltype(x)>(~x);
    } else {
      return x;
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"BitwiseNot", 18}, {"BitwiseNot", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kBitwiseNot{.name = "bitwise_not",
                                      .infer = inferUnary<Accepts::Integer>,
                                      .reference = reference,
                                      .traits = kElementwise,
                                      .onnx = kOnnx};

Value bitwiseNot(GraphBuilder& b, Value x) {
  return b.add(kBitwiseNot, {x});
}

}  // namespace sluice::ops
