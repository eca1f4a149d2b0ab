// bitwise_or: the bits that one of the integers has, with broadcasting.
#include <type_traits>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) {
    if constexpr (std::is_integral_v<decltype(x)>) {
      return static_cast<decltype(x)>(x | y);
    } else {
      return x;
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"BitwiseOr", 18}, {"BitwiseOr", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kBitwiseOr{.name = "bitwise_or",
                                     .minInputs = 2,
                                     .maxInputs = 2,
                                     .infer = inferBinary<Accepts::Integer>,
                                     .reference = reference,
                                     .traits = kElementwiseCommutative,
                                     .onnx = kOnnx};

Value bitwiseOr(GraphBuilder& b, Value x, Value y) {
  return b.add(kBitwiseOr, {x, y});
}

}  // namespace sluice::ops
