// bitwise_and: the bits that both integers have, with broadcasting.
#include <type_traits>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) {
    if constexpr (std::is_integral_v<decltype(x)>) {
      return static_cast<decltype(x)>(x & y);
    } else {
      return x;
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"BitwiseAnd", 18}, {"BitwiseAnd", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kBitwiseAnd{.name = "bitwise_and",
                                      .minInputs = 2,
                                      .maxInputs = 2,
                                      .infer = inferBinary<Accepts::Integer>,
                                      .reference = reference,
                                      .traits = kElementwiseCommutative,
                                      .onnx = kOnnx};

Value bitwiseAnd(GraphBuilder& b, Value x, Value y) {
  return b.add(kBitwiseAnd, {x, y});
}

}  // namespace sluice::ops
