// The extents of max and average pooling, used by their references, gradients and device kernels.
#pragma once

#include <array>
#include <cstdint>

#include "sluice/ir/op_def.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/window.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {

/// Every map of [batch, channels, in...] is pooled separately.
struct PoolDims : WindowDims {
  std::int64_t batch = 0;
  std::int64_t channels = 0;

  std::int64_t maps() const { return batch * channels; }
  Shape outShape() const { return windowShape(*this, batch, channels); }
};

/// Reads a pooling op or its gradient; the attribute inputShape of a gradient is its input's shape.
/// Throws InvalidArgument, also if an operand of the gradient does not have the output's shape.
PoolDims poolDims(const ir::OpView& op);

ir::Cost costPool(const ir::OpView& op);

/// The type of offsets inside a window: u8 if every offset fits, else i32.
DType poolIndexType(const PoolDims& d);

/// The divisor of each window's sum: the number of positions inside the input or, with
/// countIncludePad, inside the input and the given padding. Never 0.
std::vector<double> avgPoolDivisors(const PoolDims& d, bool countIncludePad);

/// Returns the attributes of an op as builder options, for the op of its gradient.
PoolOptions poolOptions(const ir::OpView& op);
ir::Attrs poolAttrs(const PoolOptions& options);

inline constexpr ir::AttrSpec kPoolKernel = {
    .name = "kernel", .kind = ir::AttrKind::Ints, .required = true};
inline constexpr ir::AttrSpec kPoolStrides = {.name = "strides", .kind = ir::AttrKind::Ints};
inline constexpr ir::AttrSpec kPoolPads = {.name = "pads", .kind = ir::AttrKind::Ints};
inline constexpr ir::AttrSpec kPoolDilations = {.name = "dilations", .kind = ir::AttrKind::Ints};
inline constexpr ir::AttrSpec kPoolCeil = {.name = "ceilMode", .kind = ir::AttrKind::Bool};
inline constexpr ir::AttrSpec kPoolCount = {.name = "countIncludePad", .kind = ir::AttrKind::Bool};
inline constexpr ir::AttrSpec kPoolInput = {
    .name = "inputShape", .kind = ir::AttrKind::Ints, .required = true};

}  // namespace sluice::ops
