// tensor_location: x itself, marked as a value with a location of its own. Nobody needs to read it.
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

constexpr ir::AttrSpec kAttrs[] = {{.name = "on_chip", .kind = ir::AttrKind::Bool}};

}  // namespace

constinit const ir::OpDef kTensorLocation{.name = "tensor_location",
                                          .attrs = kAttrs,
                                          .infer = inferUnary<Accepts::Any>,
                                          .grad = grad,
                                          .reference = reference,
                                          .traits = {.view = true, .keep = true}};

Value tensorLocation(GraphBuilder& b, Value x, bool onChip) {
  return b.add(kTensorLocation, {x}, {{"on_chip", onChip}});
}

}  // namespace sluice::ops
