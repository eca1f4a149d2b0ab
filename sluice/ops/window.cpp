#include "sluice/ops/window.h"

#include "sluice/base/error.h"

namespace sluice::ops {
namespace {

// Keeps every sum and product of extents inside 64 bits.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 30;

void requireRange(const ir::OpView& op,
                  std::string_view what,
                  std::int64_t value,
                  std::int64_t lowest) {
  if (value < lowest || value > kMaxExtent) {
    raise<InvalidArgument>(
        "{}: {} must be from {} to {}, got {}", op.def.name, what, lowest, kMaxExtent, value);
  }
}

/// An attribute list of `count` values, or nothing when it is empty or the op has no such one.
std::span<const std::int64_t> listOf(const ir::OpView& op,
                                     std::string_view attr,
                                     std::size_t count,
                                     std::int64_t lowest) {
  if (op.attrs.find(attr) == nullptr) {
    return {};
  }
  const std::vector<std::int64_t>& values = op.attrs.integers(attr);
  if (!values.empty() && values.size() != count) {
    raise<InvalidArgument>(
        "{}: {} needs {} values (or none), got {}", op.def.name, attr, count, values.size());
  }
  for (const std::int64_t value : values) {
    requireRange(op, attr, value, lowest);
  }
  return values;
}

std::int64_t outExtent(const ir::OpView& op,
                       const WindowDims& d,
                       std::size_t axis,
                       Rounding rounding) {
  const std::int64_t padded = d.in[axis] + d.padsBefore[axis] + d.padsAfter[axis];
  const std::int64_t window = d.dilations[axis] * (d.kernel[axis] - 1) + 1;
  if (window > padded) {
    raise<InvalidArgument>(
        "{}: a kernel that spans {} does not fit spatial axis {} of extent {} (padded {})",
        op.def.name,
        window,
        axis + d.rank - 3,
        d.in[axis],
        padded);
  }
  const std::int64_t stride = d.strides[axis];
  std::int64_t extra = (padded - window) / stride;
  if (rounding == Rounding::Ceil && (padded - window) % stride != 0 &&
      (extra + 1) * stride < d.in[axis] + d.padsBefore[axis]) {
    ++extra;
  }
  return extra + 1;
}

}  // namespace

WindowDims windowDims(const ir::OpView& op,
                      const Shape& input,
                      std::span<const std::int64_t> kernel,
                      Rounding rounding) {
  if (input.rank() < 3 || input.rank() > 5) {
    raise<InvalidArgument>("{}: the input must be [batch, channels, 1 to 3 spatial axes], got {}",
                           op.def.name,
                           input.str());
  }
  WindowDims d;
  d.rank = static_cast<std::size_t>(input.rank() - 2);
  if (kernel.size() != d.rank) {
    raise<InvalidArgument>("{}: the kernel has {} spatial axes, the input {} has {}",
                           op.def.name,
                           kernel.size(),
                           input.str(),
                           d.rank);
  }
  const auto strides = listOf(op, "strides", d.rank, 1);
  const auto pads = listOf(op, "pads", 2 * d.rank, 0);
  const auto dilations = listOf(op, "dilations", d.rank, 1);
  for (std::size_t i = 0; i < d.rank; ++i) {
    const std::size_t axis = 3 - d.rank + i;
    d.in[axis] = input.dims()[i + 2];
    d.kernel[axis] = kernel[i];
    d.strides[axis] = strides.empty() ? 1 : strides[i];
    d.padsBefore[axis] = pads.empty() ? 0 : pads[i];
    d.padsAfter[axis] = pads.empty() ? 0 : pads[i + d.rank];
    d.dilations[axis] = dilations.empty() ? 1 : dilations[i];
    requireRange(op, "the kernel's extent", d.kernel[axis], 1);
    requireRange(op, "a spatial extent", d.in[axis], 0);
    d.out[axis] = outExtent(op, d, axis, rounding);
  }
  return d;
}

Shape windowShape(const WindowDims& d, std::int64_t batch, std::int64_t channels) {
  std::vector<std::int64_t> dims = {batch, channels};
  dims.insert(dims.end(), d.out.end() - static_cast<std::ptrdiff_t>(d.rank), d.out.end());
  return Shape(std::move(dims));
}

}  // namespace sluice::ops
