#include "sluice/devices/cpu/kernels/iteration_space.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/base/error.h"

namespace sluice::devices::cpu {
namespace {

/// Shorter rows are gathered into longer blocks.
constexpr std::int64_t kMinRow = 128;

std::vector<std::size_t> axesAsStored(const StoredShape& output) {
  const std::size_t rank = output.shape.dims().size();
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rank; ++i) {
    if (output.layout.isPlain() || i != 1) {
      order.push_back(i);
    }
  }
  if (!output.layout.isPlain()) {
    order.push_back(1);
  }
  return order;
}

std::vector<std::int64_t> broadcastStrides(const StoredShape& operand, std::size_t rank) {
  const std::vector<std::int64_t> own = device::strides(operand.shape, operand.layout);
  std::vector<std::int64_t> strides(rank, 0);
  const std::size_t offset = rank - own.size();
  for (std::size_t i = 0; i < own.size(); ++i) {
    strides[offset + i] = operand.shape.dims()[i] == 1 ? 0 : own[i];
  }
  return strides;
}

template <class T>
void copyRun(const T* from, std::int64_t stride, T* to, std::int64_t count) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = from[i * stride];
  }
}

}  // namespace

IterationSpace::IterationSpace(const StoredShape& output, std::span<const StoredShape> operands)
    : elements_(output.shape.elements()) {
  const std::size_t rank = output.shape.dims().size();
  for (const StoredShape& operand : operands) {
    operands_.push_back({Access::Contiguous, broadcastStrides(operand, rank)});
  }
  merge(axesAsStored(output), output.shape);
  byRows_ = extents_.size() == 1 || rowLength() >= kMinRow;
  for (OperandStrides& operand : operands_) {
    operand.access = classify(operand.strides);
    period_ = operand.access == Access::Periodic ? std::max<std::int64_t>(rowLength(), 1) : period_;
  }
}

void IterationSpace::merge(const std::vector<std::size_t>& order, const Shape& shape) {
  std::vector<std::vector<std::int64_t>> merged(operands_.size());
  for (const std::size_t axis : order) {
    const std::int64_t extent = shape.dims()[axis];
    if (extent == 1) {
      continue;
    }
    bool joins = !extents_.empty();
    for (std::size_t i = 0; i < merged.size() && joins; ++i) {
      joins = merged[i].back() == operands_[i].strides[axis] * extent;
    }
    if (joins) {
      extents_.back() *= extent;
    } else {
      extents_.push_back(extent);
    }
    for (std::size_t i = 0; i < merged.size(); ++i) {
      if (!joins) {
        merged[i].push_back(0);
      }
      merged[i].back() = operands_[i].strides[axis];
    }
  }
  const bool single = extents_.empty();
  if (single) {
    extents_.push_back(1);
  }
  for (std::size_t i = 0; i < merged.size(); ++i) {
    operands_[i].strides = single ? std::vector<std::int64_t>{1} : std::move(merged[i]);
  }
}

Access IterationSpace::classify(const std::vector<std::int64_t>& strides) const {
  std::int64_t expected = 1;
  bool contiguous = true;
  for (std::size_t i = strides.size(); i-- > 0;) {
    contiguous = contiguous && strides[i] == expected;
    expected *= extents_[i];
  }
  if (contiguous) {
    return Access::Contiguous;
  }
  if (std::ranges::all_of(strides, [](std::int64_t s) { return s == 0; })) {
    return Access::Uniform;
  }
  if (byRows_ && strides.back() == 1) {
    return Access::RowContiguous;
  }
  const auto outer = std::span(strides).first(strides.size() - 1);
  if (!byRows_ && std::ranges::all_of(outer, [](std::int64_t s) { return s == 0; })) {
    return Access::Periodic;
  }
  return byRows_ && strides.back() == 0 ? Access::RowUniform : Access::Gathered;
}

void IterationSpace::gather(
    std::size_t i, const void* from, void* to, Range range, std::size_t bytes) const {
  const std::vector<std::int64_t>& strides = operands_[i].strides;
  std::array<std::int64_t, kMaxAxes> at{};
  std::int64_t rest = range.first;
  std::int64_t offset = 0;
  for (std::size_t axis = extents_.size(); axis-- > 0;) {
    at[axis] = rest % extents_[axis];
    rest /= extents_[axis];
    offset += at[axis] * strides[axis];
  }
  const std::size_t inner = extents_.size() - 1;
  for (std::int64_t done = 0; done < range.count;) {
    const std::int64_t run = std::min(range.count - done, extents_[inner] - at[inner]);
    const auto copy = [&]<class T>(T) {
      copyRun(
          static_cast<const T*>(from) + offset, strides[inner], static_cast<T*>(to) + done, run);
    };
    switch (bytes) {
      case 1:
        copy(std::uint8_t{});
        break;
      case 2:
        copy(std::uint16_t{});
        break;
      case 4:
        copy(std::uint32_t{});
        break;
      default:
        copy(std::uint64_t{});
    }
    done += run;
    at[inner] += run;
    offset += run * strides[inner];
    for (std::size_t axis = inner; axis > 0 && at[axis] == extents_[axis]; --axis) {
      offset += strides[axis - 1] - at[axis] * strides[axis];
      at[axis] = 0;
      ++at[axis - 1];
    }
  }
}

}  // namespace sluice::devices::cpu
