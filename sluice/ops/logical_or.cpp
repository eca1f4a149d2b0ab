// logical_or: x or y with broadcasting.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return x || y; });
}

constexpr ir::OnnxName kOnnx[] = {{"Or", 1}, {"Or", 7}};

}  // namespace

constinit const ir::OpDef kLogicalOr{.name = "logical_or",
                                     .minInputs = 2,
                                     .maxInputs = 2,
                                     .infer = inferCompare<Accepts::Boolean>,
                                     .reference = reference,
                                     .traits = kElementwiseCommutative,
                                     .onnx = kOnnx};

Value logicalOr(GraphBuilder& b, Value x, Value y) {
  return b.add(kLogicalOr, {x, y});
}

}  // namespace sluice::ops
