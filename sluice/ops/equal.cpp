// equal: x == y with broadcasting, as bool. NaN equals nothing.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return x == y; });
}

constexpr ir::OnnxName kOnnx[] = {{"Equal", 1}, {"Equal", 7}, {"Equal", 11}};

}  // namespace

constinit const ir::OpDef kEqual{.name = "equal",
                                 .minInputs = 2,
                                 .maxInputs = 2,
                                 .infer = inferCompare<Accepts::Any>,
                                 .reference = reference,
                                 .traits = kElementwiseCommutative,
                                 .onnx = kOnnx};

Value equal(GraphBuilder& b, Value x, Value y) {
  return b.add(kEqual, {x, y});
}

}  // namespace sluice::ops
