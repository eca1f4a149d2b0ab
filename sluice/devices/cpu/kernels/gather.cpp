// gather: rows of contiguous elements, copied by their indices.
#include <algorithm>
#include <cstring>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/moves.h"
#include "sluice/devices/cpu/kernels/strided_copy.h"
#include "sluice/ops/layout.h"

namespace sluice::devices::cpu {
namespace {

template <std::size_t kBytes>
void copyElement(const std::byte* from, std::byte* to, std::size_t /*bytes*/) {
  std::memcpy(to, from, kBytes);
}

using RowCopy = void (*)(const std::byte*, std::byte*, std::size_t);

RowCopy rowCopy(std::size_t bytes) {
  switch (bytes) {
    case 1:
      return copyElement<1>;
    case 2:
      return copyElement<2>;
    case 4:
      return copyElement<4>;
    case 8:
      return copyElement<8>;
    default:
      return copyRun;
  }
}

class Gather : public Kernel {
 public:
  explicit Gather(const ir::OpView& op)
      : name_(op.def.name),
        indexType_(op.inputs[1].dtype),
        count_(op.inputs[1].shape.elements()),
        view_(ops::aroundAxis(op.inputs[0].shape, ops::axisAttr(op, op.inputs[0].shape))),
        row_(static_cast<std::size_t>(view_.inner) * byteSize(op.inputs[0].dtype)),
        copy_(rowCopy(row_)) {}

  void run(const KernelRun& run) override {
    const std::int64_t rows = view_.outer * count_;
    if (rows == 0 || row_ == 0) {
      return;
    }
    withIndices(indexType_, run.inputs[1], [&](const auto* indices) {
      checkIndices(name_, indices, count_, view_.extent);
      const std::int64_t perTile = itemsPerTile(view_.inner);
      run.workers.parallelFor(ceilDiv(rows, perTile), [&](std::int64_t tile) {
        const std::int64_t last = std::min(rows, (tile + 1) * perTile);
        copyRows(run, indices, tile * perTile, last);
      });
    });
  }

 private:
  /// Rows [first, last) of the result.
  template <class Index>
  void copyRows(const KernelRun& run,
                const Index* indices,
                std::int64_t first,
                std::int64_t last) const {
    std::byte* to = run.out<std::byte>(0) + static_cast<std::size_t>(first) * row_;
    for (std::int64_t row = first; row < last;) {
      const std::int64_t outer = row / count_;
      const std::int64_t end = std::min(last, (outer + 1) * count_);
      const std::byte* base =
          run.in<std::byte>(0) + static_cast<std::size_t>(outer * view_.extent) * row_;
      for (const Index* index = indices + (row - outer * count_); row < end; ++row, ++index) {
        copy_(base + static_cast<std::size_t>(resolved(*index, view_.extent)) * row_, to, row_);
        to += row_;
      }
    }
  }

  std::string_view name_;
  DType indexType_;
  std::int64_t count_;
  ops::AxisView view_;
  std::size_t row_;  ///< bytes
  RowCopy copy_;
};

}  // namespace

std::unique_ptr<Kernel> makeGather(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<Gather>(op);
}

}  // namespace sluice::devices::cpu
