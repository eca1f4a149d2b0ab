// Custom ops in models: loadCustomOps loads the ops of a shared library, and customOp uses one of
// them in forward. In training, the library's backward function computes the gradient.
#pragma once

#include <vector>

#include "sluice/nn/tensor.h"
#include "sluice/ops/custom_op.h"

#pragma GCC visibility push(default)

namespace sluice {

using ops::loadCustomOps;
using ops::registerCustomOps;

namespace nn {

/// The results of a loaded op. Of the example outputs only the types are used:
///
///   nn::customOp({x}, {.name = "LeakyRelu", .domain = "com.example", .version = 1,
///                      .exampleOutputs = {x.type()}, .attributes = {{"alpha", 0.02}}})[0]
///
/// An attribute is a number, a text, or a list of one kind of these. Throws InvalidArgument for an
/// op that is not loaded, and for operands, attributes or examples that do not fit it.
std::vector<Tensor> customOp(const std::vector<Tensor>& inputs, const ops::CustomOpUse& use);

}  // namespace nn
}  // namespace sluice

#pragma GCC visibility pop
