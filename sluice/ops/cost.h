// The cost of ops that touch every operand once; such ops differ only in their flops.
#pragma once

#include "sluice/ir/op_def.h"

namespace sluice::ops {

inline ir::Cost costOfFlops(const ir::OpView& op, double flops) {
  ir::Cost cost{.flops = flops};
  for (const TensorType& type : op.inputs) {
    cost.bytesRead += static_cast<double>(type.bytes());
  }
  for (const TensorType& type : op.outputs) {
    cost.bytesWritten += static_cast<double>(type.bytes());
  }
  return cost;
}

/// kFlops flops per element of the first input.
template <int kFlops>
ir::Cost costPerInput(const ir::OpView& op) {
  return costOfFlops(op, kFlops * static_cast<double>(op.inputs[0].shape.elements()));
}

/// kFlops flops per element of the first output.
template <int kFlops>
ir::Cost costPerOutput(const ir::OpView& op) {
  return costOfFlops(op, kFlops * static_cast<double>(op.outputs[0].shape.elements()));
}

}  // namespace sluice::ops
