// logical_and: x and y with broadcasting.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return x && y; });
}

constexpr ir::OnnxName kOnnx[] = {{"And", 1}, {"And", 7}};

}  // namespace

constinit const ir::OpDef kLogicalAnd{.name = "logical_and",
                                      .minInputs = 2,
                                      .maxInputs = 2,
                                      .infer = inferCompare<Accepts::Boolean>,
                                      .reference = reference,
                                      .traits = kElementwiseCommutative,
                                      .onnx = kOnnx};

Value logicalAnd(GraphBuilder& b, Value x, Value y) {
  return b.add(kLogicalAnd, {x, y});
}

}  // namespace sluice::ops
