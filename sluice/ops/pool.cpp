#include "sluice/ops/pool.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"

namespace sluice::ops {

PoolDims poolDims(const ir::OpView& op) {
  const bool isGrad = op.attrs.find("inputShape") != nullptr;
  const Shape x = isGrad ? Shape(op.attrs.integers("inputShape")) : op.inputs[0].shape;
  PoolDims d;
  static_cast<WindowDims&>(d) =
      windowDims(op,
                 x,
                 op.attrs.integers("kernel"),
                 op.attrs.flag("ceilMode") ? Rounding::Ceil : Rounding::Floor);
  d.batch = x[0];
  d.channels = x[1];
  for (const TensorType& type : op.inputs) {
    if (isGrad && type.shape != d.outShape()) {
      raise<InvalidArgument>("{}: the output gradient and indices must be {}, got {}",
                             op.def.name,
                             d.outShape().str(),
                             type.shape.str());
    }
  }
  return d;
}

ir::Cost costPool(const ir::OpView& op) {
  const PoolDims d = poolDims(op);
  return costOfFlops(op,
                     static_cast<double>(d.maps()) * static_cast<double>(d.outSize()) *
                         static_cast<double>(d.kernelSize()));
}

DType poolIndexType(const PoolDims& d) {
  return d.kernelSize() <= 256 ? DType::U8 : DType::I32;
}

std::vector<double> avgPoolDivisors(const PoolDims& d, bool countIncludePad) {
  const auto count = [&](std::size_t axis, std::int64_t o) {
    const std::int64_t begin = d.position(axis, o, 0);
    const std::int64_t end = begin + d.kernel[axis];
    const std::int64_t low = countIncludePad ? -d.padsBefore[axis] : 0;
    const std::int64_t high = d.in[axis] + (countIncludePad ? d.padsAfter[axis] : 0);
    return static_cast<double>(
        std::max<std::int64_t>(0, std::min(end, high) - std::max(begin, low)));
  };
  std::vector<double> divisors;
  divisors.reserve(static_cast<std::size_t>(d.outSize()));
  for (std::int64_t o0 = 0; o0 < d.out[0]; ++o0) {
    for (std::int64_t o1 = 0; o1 < d.out[1]; ++o1) {
      for (std::int64_t o2 = 0; o2 < d.out[2]; ++o2) {
        divisors.push_back(std::max(1.0, count(0, o0) * count(1, o1) * count(2, o2)));
      }
    }
  }
  return divisors;
}

PoolOptions poolOptions(const ir::OpView& op) {
  PoolOptions options{.kernel = op.attrs.integers("kernel"),
                      .strides = op.attrs.integers("strides"),
                      .pads = op.attrs.integers("pads"),
                      .ceilMode = op.attrs.flag("ceilMode")};
  if (op.attrs.find("dilations") != nullptr) {
    options.dilations = op.attrs.integers("dilations");
  }
  if (op.attrs.find("countIncludePad") != nullptr) {
    options.countIncludePad = op.attrs.flag("countIncludePad");
  }
  return options;
}

ir::Attrs poolAttrs(const PoolOptions& options) {
  return {{"kernel", options.kernel},
          {"strides", options.strides},
          {"pads", options.pads},
          {"ceilMode", options.ceilMode}};
}

}  // namespace sluice::ops
