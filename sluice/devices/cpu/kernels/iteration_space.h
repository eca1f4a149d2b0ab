// The elements of an element-wise result in storage order, with the strides by which each operand
// is read. Axes of extent 1 are dropped, and neighbouring axes are merged if all operands allow it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/device/layout.h"

namespace sluice::devices::cpu {

struct StoredShape {
  Shape shape;
  device::Layout layout;
};

/// How a run of result elements reads its operand.
enum class Access : std::uint8_t {
  Contiguous,     ///< element i of the result reads element i
  Uniform,        ///< one element for the whole result
  RowContiguous,  ///< consecutive elements along the innermost axis
  RowUniform,     ///< one element along the innermost axis
  Periodic,       ///< short rows that all read the same elements
  Gathered        ///< anything else, or rows too short to be worth a call
};

struct OperandStrides {
  Access access = Access::Contiguous;
  std::vector<std::int64_t> strides;  // by merged axis, outermost first
};

class IterationSpace {
 public:
  static constexpr std::size_t kMaxAxes = 16;

  /// Operands are broadcast to the output's shape.
  IterationSpace(const StoredShape& output, std::span<const StoredShape> operands);

  std::int64_t elements() const { return elements_; }
  /// Merged axes, outermost first; at least one.
  const std::vector<std::int64_t>& extents() const { return extents_; }
  std::int64_t rowLength() const { return extents_.back(); }
  const OperandStrides& operand(std::size_t i) const { return operands_[i]; }
  /// Blocks whose length is a multiple of this see the same elements of Periodic operands.
  std::int64_t period() const { return period_; }
  /// Whether blocks end at the ends of rows.
  bool byRows() const { return byRows_; }

  /// Copies range.count elements of `bytes` bytes as operand i sees them, starting at result
  /// element range.first.
  struct Range {
    std::int64_t first;
    std::int64_t count;
  };
  void gather(std::size_t i, const void* from, void* to, Range range, std::size_t bytes) const;

 private:
  void merge(const std::vector<std::size_t>& order, const Shape& shape);
  Access classify(const std::vector<std::int64_t>& strides) const;

  std::int64_t elements_;
  std::int64_t period_ = 1;
  bool byRows_ = true;
  std::vector<std::int64_t> extents_;
  std::vector<OperandStrides> operands_;
};

}  // namespace sluice::devices::cpu
