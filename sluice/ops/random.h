// Shared by the random op files. An op's numbers are a function of (seed, its `ordinal`,
// micro-batch, element) alone: rule R6.
#pragma once

#include "sluice/base/philox.h"
#include "sluice/ir/op_def.h"

namespace sluice::ops {

/// Throws InvalidArgument unless the attribute `ordinal` fits a stream.
void requireOrdinal(const ir::OpView& op);

/// The numbers of one run of a random op.
RandomStream randomStream(const ir::KernelArgs& args);

/// The float type that the attributes `shape` and `dtype` name; throws InvalidArgument.
TensorType randomType(const ir::OpView& op);

/// Ten rounds of integer arithmetic for every four elements, and the conversion.
ir::Cost costOfRandom(const ir::OpView& op);

}  // namespace sluice::ops
