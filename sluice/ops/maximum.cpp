// maximum: the larger of x and y with broadcasting; NaN if either is. Where they are equal the
// gradient goes to x.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value zero = g.b.scalar(g.op.inputs[0].dtype, 0.0);
  const Value first = greaterEqual(g.b, g.input(0), g.input(1));
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    grads[0] = sumTo(g.b, where(g.b, first, g.grad(), zero), g.op.inputs[0].shape);
  }
  if (g.needs(1)) {
    grads[1] = sumTo(g.b, where(g.b, first, zero, g.grad()), g.op.inputs[1].shape);
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) {
    if (notANumber(x) || notANumber(y)) {
      return notANumber(x) ? x : y;
    }
    return x < y ? y : x;
  });
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
