// Shared by maximum and minimum, which return one of their two operands.
#pragma once

#include <vector>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {

/// The gradient goes to the first operand where `first` is true, else to the second.
inline std::vector<Value> gradOfPick(ir::GradContext& g, Value first) {
  const Value zero = g.b.scalar(g.op.inputs[0].dtype, 0.0);
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    grads[0] = sumTo(g.b, where(g.b, first, g.grad(), zero), g.op.inputs[0].shape);
  }
  if (g.needs(1)) {
    grads[1] = sumTo(g.b, where(g.b, first, zero, g.grad()), g.op.inputs[1].shape);
  }
  return grads;
}

/// NaN if either operand is NaN; otherwise the second if takesSecond(x, y), else the first.
template <class F>
void referencePick(const ir::KernelArgs& args, F takesSecond) {
  referenceBinary(args, [&](auto x, auto y) {
    if (notANumber(x) || notANumber(y)) {
      return notANumber(x) ? x : y;
    }
    return takesSecond(x, y) ? y : x;
  });
}

}  // namespace sluice::ops
