// Shared by the kernels that move elements: layouts, fills and index operands.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/base/workers.h"
#include "sluice/device/kernel_table.h"

namespace sluice::devices::cpu {

/// Plain or channels last, like the neighbours: copies give the same bits in both.
device::Choice chooseMove(const ir::OpView& op, const device::Tuning& tuning);

/// The axes in storage order, from the outermost to the innermost.
std::vector<std::size_t> storageOrder(std::int64_t rank, const device::Layout& layout);

/// Writes `bytes` zero bytes, split over the team.
void fillZero(std::byte* to, std::size_t bytes, Workers& workers);

/// Calls f with a pointer to the elements of an operand of i32 or i64.
template <class F>
void withIndices(DType dtype, const void* data, const F& f) {
  if (dtype == DType::I32) {
    f(static_cast<const std::int32_t*>(data));
  } else {
    f(static_cast<const std::int64_t*>(data));
  }
}

/// Throws InvalidArgument for an index that is not in [-extent, extent).
template <class T>
void checkIndices(std::string_view op, const T* indices, std::int64_t count, std::int64_t extent) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::int64_t>(indices[i]);
    if (index < -extent || index >= extent) {
      raise<InvalidArgument>(
          "{}: index {} is out of range for an axis of extent {}", op, index, extent);
    }
  }
}

/// Negative indices count from the end.
template <class T>
std::int64_t resolved(T index, std::int64_t extent) {
  const auto wide = static_cast<std::int64_t>(index);
  return wide < 0 ? wide + extent : wide;
}

}  // namespace sluice::devices::cpu
