// One axis of a tensor as (outer, extent, inner), for softmax, log_softmax, their gradients and
// device kernels.
#pragma once

#include <array>
#include <cstdint>

#include "sluice/ir/op_def.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {

/// Element (o, i, n) lies at (o * extent + i) * inner + n.
struct AxisDims {
  std::int64_t axis = 0;
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
};

/// Reads input 0 and the attribute `axis`; throws InvalidArgument if the axis is out of range.
AxisDims axisDims(const ir::OpView& op);

/// Takes one float operand; the result has its type.
std::vector<TensorType> inferSoftmax(const ir::OpView& op);
/// Takes (y, dy), which must have the same type; the result has this type, too.
std::vector<TensorType> inferSoftmaxGrad(const ir::OpView& op);

inline constexpr std::array<ir::AttrSpec, 1> kSoftmaxAttrs = {
    {{.name = "axis", .kind = ir::AttrKind::Int, .integer = -1}}};

/// Calls f(offset of the first element) for every line along the axis; the elements of a line are
/// `inner` apart.
template <class F>
void forEachLine(const AxisDims& d, F f) {
  for (std::int64_t o = 0; o < d.outer; ++o) {
    for (std::int64_t n = 0; n < d.inner; ++n) {
      f(o * d.extent * d.inner + n);
    }
  }
}

}  // namespace sluice::ops
