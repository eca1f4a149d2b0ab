// Initial values of parameters, by shape. The fan-in of a weight [out, in, kernel...] is in times
// the kernel's elements, the fan-out is out times those, as in PyTorch.
#pragma once

#include "sluice/ir/variable.h"

namespace sluice::nn::init {

ir::Initializer constant(double value);
ir::Initializer zeros();
ir::Initializer ones();
ir::Initializer uniform(double low, double high);
ir::Initializer normal(double mean, double deviation);

/// Weights of shapes of rank 2 or more; others throw InvalidArgument.
std::int64_t fanIn(const Shape& shape);
std::int64_t fanOut(const Shape& shape);

/// `gain` is that of the activation behind the layer: sqrt(2) for ReLU.
ir::Initializer kaimingUniform(const Shape& shape, double gain = 1.4142135623730951);
ir::Initializer kaimingNormal(const Shape& shape, double gain = 1.4142135623730951);
ir::Initializer xavierUniform(const Shape& shape, double gain = 1.0);
ir::Initializer xavierNormal(const Shape& shape, double gain = 1.0);

/// PyTorch's default of linear and convolution layers, for weights and biases:
/// U(-1/sqrt(fanIn), 1/sqrt(fanIn)), which is Kaiming's with a = sqrt(5).
ir::Initializer layerDefault(std::int64_t fanIn);

}  // namespace sluice::nn::init
