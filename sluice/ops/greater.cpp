// greater: x > y with broadcasting, as bool; false for NaN.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return x > y; });
}

constexpr ir::OnnxName kOnnx[] = {{"Greater", 1}, {"Greater", 7}, {"Greater", 9}};

}  // namespace

constinit const ir::OpDef kGreater{.name = "greater",
                                   .minInputs = 2,
                                   .maxInputs = 2,
                                   .infer = inferCompare<Accepts::Numeric>,
                                   .reference = reference,
                                   .traits = kElementwise,
                                   .onnx = kOnnx};

Value greater(GraphBuilder& b, Value x, Value y) {
  return b.add(kGreater, {x, y});
}

}  // namespace sluice::ops
