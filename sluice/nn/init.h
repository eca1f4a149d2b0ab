// Initial values of parameters. As in PyTorch, the fan-in of a weight [out, in, kernel...] is `in`
// times the number of kernel elements, and the fan-out is `out` times that number.
#pragma once

#include "sluice/ir/variable.h"

#pragma GCC visibility push(default)

namespace sluice::nn::init {

ir::Initializer constant(double value);
ir::Initializer zeros();
ir::Initializer ones();
ir::Initializer uniform(double low, double high);
ir::Initializer normal(double mean, double deviation);

/// The shape must have rank 2 or more; others throw InvalidArgument.
std::int64_t fanIn(const Shape& shape);
std::int64_t fanOut(const Shape& shape);

/// `gain` is that of the activation after the layer: sqrt(2) for ReLU.
ir::Initializer kaimingUniform(const Shape& shape, double gain = 1.4142135623730951);
ir::Initializer kaimingNormal(const Shape& shape, double gain = 1.4142135623730951);
ir::Initializer xavierUniform(const Shape& shape, double gain = 1.0);
ir::Initializer xavierNormal(const Shape& shape, double gain = 1.0);

/// PyTorch's default for the weights and biases of linear and convolution layers: U(-1/sqrt(fanIn),
/// 1/sqrt(fanIn)), which is Kaiming's with a = sqrt(5).
ir::Initializer layerDefault(std::int64_t fanIn);

}  // namespace sluice::nn::init

#pragma GCC visibility pop
