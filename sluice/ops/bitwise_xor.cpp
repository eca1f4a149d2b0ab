// bitwise_xor: the bits in which the integers differ, with broadcasting.
#include <type_traits>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) {
    if constexpr (std::is_integral_v<decltype(x)>) {
      return static_cast<decltype(x)>(x ^ y);
    } else {
      return x;
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"BitwiseXor", 18}, {"BitwiseXor", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kBitwiseXor{.name = "bitwise_xor",
                                      .minInputs = 2,
                                      .maxInputs = 2,
                                      .infer = inferBinary<Accepts::Integer>,
                                      .reference = reference,
                                      .traits = kElementwiseCommutative,
                                      .onnx = kOnnx};

Value bitwiseXor(GraphBuilder& b, Value x, Value y) {
  return b.add(kBitwiseXor, {x, y});
}

}  // namespace sluice::ops
