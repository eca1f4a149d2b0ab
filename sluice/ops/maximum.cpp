// maximum: the larger of x and y with broadcasting; NaN if either is. Where they are equal the
// gradient goes to x.
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/pick.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return gradOfPick(g, greaterEqual(g.b, g.input(0), g.input(1)));
}

void reference(const ir::KernelArgs& args) {
  referencePick(args, [](auto x, auto y) { return x < y; });
}

constexpr ir::OnnxName kOnnx[] = {{"Max", 6}, {"Max", 8}};

}  // namespace

constinit const ir::OpDef kMaximum{.name = "maximum",
                                   .minInputs = 2,
                                   .maxInputs = 2,
                                   .infer = inferBinary<Accepts::Numeric>,
                                   .grad = grad,
                                   .gradReads = {.inputs = 0b11},
                                   .reference = reference,
                                   .traits = kElementwiseCommutative,
                                   .onnx = kOnnx};

Value maximum(GraphBuilder& b, Value x, Value y) {
  return b.add(kMaximum, {x, y});
}

}  // namespace sluice::ops
