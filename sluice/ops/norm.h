// Shared by the normalization op files: extents, checks, and operands as doubles for the
// references. Statistics (means, reciprocal deviations) are kept in f32 or wider.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/ir/op_def.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/norm_ops.h"

namespace sluice::ops {

inline constexpr ir::AttrSpec kNormAxisAttr = {
    .name = "axis", .kind = ir::AttrKind::Int, .integer = -1};
inline constexpr ir::AttrSpec kEpsilonAttr = {
    .name = "epsilon", .kind = ir::AttrKind::Real, .real = 1e-5};

/// The type of statistics: f64 for f64, f32 for every other float.
DType statisticsType(DType dtype);
/// Throws InvalidArgument unless epsilon is a finite number of at least 0.
double epsilonOf(const ir::OpView& op);

/// The input as rows, each normalized separately: the axes from `axis` on form a row.
struct RowDims {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  Shape row;         ///< the normalized axes, the shape of gamma and beta
  Shape statistics;  ///< the input's shape with extent 1 on the normalized axes
};
/// Reads input 0 and the attribute `axis`; throws InvalidArgument.
RowDims rowDims(const ir::OpView& op);

/// The axes that number the rows, and the axes inside a row.
struct RowAxes {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> row;
};
RowAxes rowAxes(const ir::OpView& op);
/// Like reduceSum, but empty axes mean none.
Value sumOver(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes);

/// [batch, channels, positions...]: statistics are per channel.
struct ChannelDims {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t positions = 1;

  std::int64_t count() const { return batch * positions; }
};
/// Reads input 0; throws InvalidArgument if its rank is less than 2.
ChannelDims channelDims(const ir::OpView& op);
/// [channels, 1, ...]: broadcasts per-channel values against an input of `rank` axes.
Shape channelShape(std::int64_t channels, std::int64_t rank);

/// Throws InvalidArgument "<op>: <what> must be <wanted>, got ..." unless input i has the type.
void requireType(const ir::OpView& op,
                 std::size_t i,
                 std::string_view what,
                 const TensorType& wanted);

/// Calls f(channel, offset) for every element in row-major order.
template <class F>
void forEachInChannel(const ChannelDims& d, F f) {
  std::size_t i = 0;
  for (std::int64_t n = 0; n < d.batch; ++n) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(d.channels); ++c) {
      for (std::int64_t p = 0; p < d.positions; ++p) {
        f(c, i++);
      }
    }
  }
}

/// Converts a float operand of a reference to doubles, and back with one rounding.
std::vector<double> loadDoubles(const ir::KernelArgs& args, std::size_t input);
void storeDoubles(const ir::KernelArgs& args, std::size_t output, std::span<const double> values);

/// sum + term; either may be invalid (none).
Value addIfAny(GraphBuilder& b, Value sum, Value term);

}  // namespace sluice::ops
