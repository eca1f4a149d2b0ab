// identity: x itself.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {g.grad()};
}

void reference(const ir::KernelArgs& args) {
  copyBytes(args);
}

constexpr ir::OnnxName kOnnx[] = {{"Identity", 1}};

}  // namespace

constinit const ir::OpDef kIdentity{.name = "identity",
                                    .infer = inferUnary<Accepts::Any>,
                                    .grad = grad,
                                    .reference = reference,
                                    .traits = {.view = true},
                                    .onnx = kOnnx};

Value identity(GraphBuilder& b, Value x) {
  return b.add(kIdentity, {x});
}

}  // namespace sluice::ops
