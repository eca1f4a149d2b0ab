// nop: x itself, kept in the graph as a mark or a fence: it is never removed or merged.
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

constexpr ir::OnnxName kOnnx[] = {{"Nop", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kNop{.name = "nop",
                               .infer = inferUnary<Accepts::Any>,
                               .grad = grad,
                               .reference = reference,
                               .traits = {.view = true, .keep = true},
                               .onnx = kOnnx};

Value nop(GraphBuilder& b, Value x) {
  return b.add(kNop, {x});
}

}  // namespace sluice::ops
