// Shared by the op files that move elements: axes, index operands, and maps from output to input
// elements. Their reference kernels copy bytes, so they work for every element type.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

/// The attribute `axis` made non-negative; throws InvalidArgument naming the op and the shape.
std::int64_t axisAttr(const ir::OpView& op, const Shape& shape);

/// A tensor seen as [outer, extent, inner] around one axis.
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
};
AxisView aroundAxis(const Shape& shape, std::int64_t axis);

/// `shape` with the extent of one axis replaced.
Shape withExtent(const Shape& shape, std::int64_t axis, std::int64_t extent);

/// Throws InvalidArgument unless the list attribute has `rank` items, one per axis.
const std::vector<std::int64_t>& perAxisAttr(const ir::OpView& op,
                                             std::string_view attr,
                                             std::int64_t rank);

/// Throws InvalidArgument unless the input has type i32 or i64.
void requireIndices(const ir::OpView& op, std::size_t input);
/// The elements of an index operand; negative ones count from the end of `extent`. Throws
/// InvalidArgument naming the first one out of range.
std::vector<std::int64_t> readIndices(const ir::KernelArgs& args,
                                      std::size_t input,
                                      std::int64_t extent);

/// Maps elements of the tensor that one list of coordinates per axis spans to elements of a tensor
/// "from": element i comes from element map(i). A coordinate of -1 means none; then map(i) is -1,
/// too.
class AxisMap {
 public:
  AxisMap(const Shape& from, std::vector<std::vector<std::int64_t>> coordinates);

  std::int64_t operator()(std::int64_t element) const;
  /// The shape that the lists span.
  Shape shape() const;

 private:
  std::vector<std::vector<std::int64_t>> coordinates_;
  std::vector<std::int64_t> strides_;
};

/// out[i] = in[map(i)] for the first operands; no map(i) may be -1.
void copyMapped(const ir::KernelArgs& args, const AxisMap& map);
/// out = 0, then out[map(i)] = in[i].
void placeMapped(const ir::KernelArgs& args, const AxisMap& map);

/// The cost of ops that read only as many elements of input 0 as they write.
ir::Cost costOfMove(const ir::OpView& op);

}  // namespace sluice::ops
