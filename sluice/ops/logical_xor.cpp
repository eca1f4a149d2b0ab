// logical_xor: exactly one of x and y, with broadcasting.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return x != y; });
}

constexpr ir::OnnxName kOnnx[] = {{"Xor", 1}, {"Xor", 7}};

}  // namespace

constinit const ir::OpDef kLogicalXor{.name = "logical_xor",
                                      .minInputs = 2,
                                      .maxInputs = 2,
                                      .infer = inferCompare<Accepts::Boolean>,
                                      .reference = reference,
                                      .traits = kElementwiseCommutative,
                                      .onnx = kOnnx};

Value logicalXor(GraphBuilder& b, Value x, Value y) {
  return b.add(kLogicalXor, {x, y});
}

}  // namespace sluice::ops
