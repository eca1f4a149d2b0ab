#include <algorithm>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/nn/parameter.h"

namespace sluice::nn::init {
namespace {

/// Elements of one kernel.
std::int64_t receptiveField(const Shape& shape) {
  if (shape.rank() < 2) {
    raise<InvalidArgument>("a fan needs a weight of rank 2 or more, got {}", shape.str());
  }
  std::int64_t elements = 1;
  for (std::int64_t i = 2; i < shape.rank(); ++i) {
    elements *= shape[i];
  }
  return elements;
}

/// Zero-sized weights have no elements to scale.
double rootOf(std::int64_t fan) {
  return std::sqrt(static_cast<double>(std::max<std::int64_t>(fan, 1)));
}

}  // namespace

ir::Initializer constant(double value) {
  return ir::Initializer::constant(value);
}

ir::Initializer zeros() {
  return constant(0.0);
}

ir::Initializer ones() {
  return constant(1.0);
}

ir::Initializer uniform(double low, double high) {
  if (!(low <= high)) {
    raise<InvalidArgument>("uniform: the lower bound {} is above the upper bound {}", low, high);
  }
  return ir::Initializer::uniform(low, high);
}

ir::Initializer normal(double mean, double deviation) {
  if (!(deviation >= 0)) {
    raise<InvalidArgument>("normal: the standard deviation {} is negative", deviation);
  }
  return ir::Initializer::normal(mean, deviation);
}

std::int64_t fanIn(const Shape& shape) {
  const std::int64_t field = receptiveField(shape);
  return shape[1] * field;
}

std::int64_t fanOut(const Shape& shape) {
  const std::int64_t field = receptiveField(shape);
  return shape[0] * field;
}

ir::Initializer kaimingUniform(const Shape& shape, double gain) {
  const double bound = gain * std::sqrt(3.0) / rootOf(fanIn(shape));
  return uniform(-bound, bound);
}

ir::Initializer kaimingNormal(const Shape& shape, double gain) {
  return normal(0.0, gain / rootOf(fanIn(shape)));
}

ir::Initializer xavierUniform(const Shape& shape, double gain) {
  const double bound = gain * std::sqrt(6.0) / rootOf(fanIn(shape) + fanOut(shape));
  return uniform(-bound, bound);
}

ir::Initializer xavierNormal(const Shape& shape, double gain) {
  return normal(0.0, gain * std::sqrt(2.0) / rootOf(fanIn(shape) + fanOut(shape)));
}

ir::Initializer layerDefault(std::int64_t fanIn) {
  const double bound = 1.0 / rootOf(fanIn);
  return uniform(-bound, bound);
}

}  // namespace sluice::nn::init
