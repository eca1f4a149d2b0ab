// The extents of a convolution, used by the references of conv, conv_grad_input and
// conv_grad_weight and by device kernels.
#pragma once

#include <array>
#include <cstdint>

#include "sluice/ir/op_def.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/window.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {

/// x [batch, inChannels, in...] and w [outChannels, inChannels / groups, kernel...] give
/// y [batch, outChannels, out...].
struct ConvDims : WindowDims {
  std::int64_t batch = 0;
  std::int64_t groups = 1;
  std::int64_t inChannels = 0;
  std::int64_t outChannels = 0;

  std::int64_t inPerGroup() const { return inChannels / groups; }
  std::int64_t outPerGroup() const { return outChannels / groups; }
  Shape outShape() const { return windowShape(*this, batch, outChannels); }
};

/// Returns the extents of any of the three ops; the shape of a missing operand is the attribute
/// inputShape or weightShape. Throws InvalidArgument if the operands do not match, or if dy does
/// not have the shape of conv's output.
ConvDims convDims(const ir::OpView& op);

ir::Cost costConv(const ir::OpView& op);

/// Returns the attributes of an op as builder options, for the ops of its gradient.
ConvOptions convOptions(const ir::OpView& op);

inline constexpr std::array<ir::AttrSpec, 4> kConvAttrs = {
    {{.name = "strides", .kind = ir::AttrKind::Ints},
     {.name = "pads", .kind = ir::AttrKind::Ints},
     {.name = "dilations", .kind = ir::AttrKind::Ints},
     {.name = "groups", .kind = ir::AttrKind::Int, .integer = 1}}};

/// Which of x, w and y a reference computes; the other two are read.
enum class ConvSum : std::uint8_t { Input, Weight, Output };

/// Sums products of the two operands in double, over every pair that meets in a window.
void referenceConv(const ir::KernelArgs& args, ConvSum sum);

}  // namespace sluice::ops
