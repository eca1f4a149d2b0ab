// detach: x itself, but no gradient passes.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& /*g*/) {
  return {Value()};
}

void reference(const ir::KernelArgs& args) {
  copyBytes(args);
}

constexpr ir::OnnxName kOnnx[] = {{"Detach", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kDetach{.name = "detach",
                                  .infer = inferUnary<Accepts::Any>,
                                  .grad = grad,
                                  .reference = reference,
                                  .traits = {.view = true},
                                  .onnx = kOnnx};

Value detach(GraphBuilder& b, Value x) {
  return b.add(kDetach, {x});
}

}  // namespace sluice::ops
