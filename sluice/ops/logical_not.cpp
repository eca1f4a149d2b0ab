// logical_not: not x.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return x == decltype(x){}; });
}

constexpr ir::OnnxName kOnnx[] = {{"Not", 1}};

}  // namespace

constinit const ir::OpDef kLogicalNot{.name = "logical_not",
                                      .infer = inferUnary<Accepts::Boolean>,
                                      .reference = reference,
                                      .traits = kElementwise,
                                      .onnx = kOnnx};

Value logicalNot(GraphBuilder& b, Value x) {
  return b.add(kLogicalNot, {x});
}

}  // namespace sluice::ops
