// recomputation_checkpoint: x itself, marked as a value to keep when activations are recomputed.
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

}  // namespace

constinit const ir::OpDef kRecomputationCheckpoint{.name = "recomputation_checkpoint",
                                                   .infer = inferUnary<Accepts::Any>,
                                                   .grad = grad,
                                                   .reference = reference,
                                                   .traits = {.view = true, .keep = true}};

Value recomputationCheckpoint(GraphBuilder& b, Value x) {
  return b.add(kRecomputationCheckpoint, {x});
}

}  // namespace sluice::ops
