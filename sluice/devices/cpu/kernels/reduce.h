// How a reduction walks its operand: axes are merged into kept and reduced ones; the innermost one
// is a run of contiguous elements. `reduce.cpp` runs it.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/device/kernel_table.h"

namespace sluice::devices::cpu {

enum class ReduceKind : std::uint8_t { Sum, Mean, Max, Min };

/// Axes with strides; `number` counts positions in row-major order.
struct StridedAxes {
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;

  std::int64_t count() const;
  std::int64_t offset(std::int64_t number) const;
};

struct ReducePlan {
  DType dtype = DType::F32;  ///< or F64
  bool innerReduced =
      false;               ///< whether a run is folded to one number, or runs are folded together
  std::int64_t run = 1;    ///< the length of the contiguous innermost axis
  StridedAxes kept;        ///< the other kept axes
  StridedAxes reduced;     ///< the other reduced axes
  std::int64_t terms = 1;  ///< number of elements per result

  // Inner reduced: each result is the fold of `partials` numbers.
  std::int64_t runsPerPartial = 1;
  std::int64_t grain = 1;  ///< elements of a run in one partial
  std::int64_t grainsPerRun = 1;
  // Inner kept: each run of results is the fold of `partials` rows.
  std::int64_t rowsPerPartial = 1;
  std::int64_t partials = 1;
  std::int64_t wide = 1;  ///< for short runs: this many neighbours are first folded as one long row

  /// Elements of scratch; 0 if every result has one partial.
  std::int64_t scratch() const;
};

ReducePlan planReduce(const ir::OpView& op, const device::Layout& layout);

}  // namespace sluice::devices::cpu
