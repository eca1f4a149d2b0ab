// transpose of any permutation: neighbouring axes that stay together are merged; then either runs
// of contiguous elements are copied, or the innermost axis and the one that was innermost before
// are exchanged in square blocks.
#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

/// One axis of the result.
struct Axis {
  std::int64_t extent;
  std::int64_t from;  // stride in the operand
  std::int64_t to;    // stride in the result
};

std::vector<Axis> mergedAxes(const ir::OpView& op) {
  const std::vector<std::int64_t>& permutation = op.attrs.integers("permutation");
  const std::vector<std::int64_t> from = op.inputs[0].shape.strides();
  const std::vector<std::int64_t> to = op.outputs[0].shape.strides();
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const std::int64_t extent = op.outputs[0].shape.dims()[i];
    const std::int64_t stride = from[static_cast<std::size_t>(permutation[i])];
    if (extent == 1) {
      continue;
    }
    if (!axes.empty() && axes.back().from == stride * extent) {
      axes.back() = {axes.back().extent * extent, stride, to[i]};
    } else {
      axes.push_back({extent, stride, to[i]});
    }
  }
  return axes;
}

/// The axis is the innermost of the operand or the result; without one, one element.
Axis takeAxis(std::vector<Axis>& axes, std::int64_t Axis::*stride) {
  const auto found =
      std::ranges::find_if(axes, [&](const Axis& axis) { return axis.*stride == 1; });
  if (found == axes.end()) {
    return {1, 1, 1};
  }
  const Axis axis = *found;
  axes.erase(found);
  return axis;
}

Axis takeLast(std::vector<Axis>& axes) {
  const Axis last = axes.back();
  axes.pop_back();
  return last;
}

class Transpose : public Kernel {
 public:
  explicit Transpose(const ir::OpView& op)
      : bytes_(byteSize(op.inputs[0].dtype)),
        empty_(op.inputs[0].shape.elements() == 0),
        outer_(mergedAxes(op)),
        inner_(takeAxis(outer_, &Axis::to)),
        across_(inner_.from != 1 ? takeAxis(outer_, &Axis::from)
                : outer_.empty() ? Axis{1, 1, 1}
                                 : takeLast(outer_)) {
    for (const Axis& axis : outer_) {
      count_ *= axis.extent;
    }
    strips_ = ceilDiv(across_.extent, kBlock);
  }

  void run(const KernelRun& run) override {
    if (empty_) {
      return;
    }
    const std::int64_t items = count_ * strips_;
    const std::int64_t perTile = itemsPerTile(inner_.extent * std::min(across_.extent, kBlock));
    run.workers.parallelFor(ceilDiv(items, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(items, (tile + 1) * perTile);
      for (std::int64_t item = tile * perTile; item < last; ++item) {
        strip(run, item / strips_, item % strips_ * kBlock);
      }
    });
  }

 private:
  static constexpr std::int64_t kBlock = 16;
  static constexpr std::size_t kLine = 64;  ///< bytes that are copied without a call

  /// `first` is the first of the (at most kBlock) elements of the axis that is exchanged.
  void strip(const KernelRun& run, std::int64_t number, std::int64_t first) const {
    std::int64_t from = first * across_.from;
    std::int64_t to = first * across_.to;
    for (std::size_t i = outer_.size(); i-- > 0;) {
      from += number % outer_[i].extent * outer_[i].from;
      to += number % outer_[i].extent * outer_[i].to;
      number /= outer_[i].extent;
    }
    const std::int64_t last = std::min(across_.extent, first + kBlock) - first;
    const auto size = static_cast<std::int64_t>(bytes_);
    const std::byte* source = run.in<std::byte>(0) + from * size;
    std::byte* target = run.out<std::byte>(0) + to * size;
    if (inner_.from == 1) {
      copyRuns(source, target, last);
      return;
    }
    switch (bytes_) {
      case 1:
        return exchange<std::uint8_t>(source, target, last);
      case 2:
        return exchange<std::uint16_t>(source, target, last);
      case 4:
        return exchange<std::uint32_t>(source, target, last);
      default:
        return exchange<std::uint64_t>(source, target, last);
    }
  }

  void copyRuns(const std::byte* source, std::byte* target, std::int64_t runs) const {
    const std::size_t bytes = static_cast<std::size_t>(inner_.extent) * bytes_;
    const auto size = static_cast<std::int64_t>(bytes_);
    for (std::int64_t run = 0; run < runs; ++run) {
      std::byte* to = target + run * across_.to * size;
      const std::byte* from = source + run * across_.from * size;
      std::size_t at = 0;
      for (; at + kLine <= bytes; at += kLine) {
        std::memcpy(to + at, from + at, kLine);
      }
      std::memcpy(to + at, from + at, bytes - at);
    }
  }

  template <class T>
  void exchange(const std::byte* source, std::byte* target, std::int64_t rows) const {
    const auto* from = reinterpret_cast<const T*>(source);
    auto* to = reinterpret_cast<T*>(target);
    // By way of a small square: both sides are then touched in whole lines, which matters when the
    // strides are powers of two and all lines compete for one place in the cache.
    std::array<std::array<T, kBlock>, kBlock> square;
    for (std::int64_t i0 = 0; i0 < inner_.extent; i0 += kBlock) {
      const std::int64_t columns = std::min(inner_.extent - i0, kBlock);
      for (std::int64_t i = 0; i < columns; ++i) {
        const T* line = from + (i0 + i) * inner_.from;
        for (std::int64_t row = 0; row < rows; ++row) {
          square[static_cast<std::size_t>(row)][static_cast<std::size_t>(i)] = line[row];
        }
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        std::memcpy(to + row * across_.to + i0,
                    square[static_cast<std::size_t>(row)].data(),
                    static_cast<std::size_t>(columns) * sizeof(T));
      }
    }
  }

  std::size_t bytes_;
  bool empty_;
  std::vector<Axis> outer_;
  Axis inner_;   // of the result
  Axis across_;  // innermost of the operand; if that is `inner_`, the next of the result
  std::int64_t count_ = 1;
  std::int64_t strips_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> makeTranspose(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<Transpose>(op);
}

}  // namespace sluice::devices::cpu
