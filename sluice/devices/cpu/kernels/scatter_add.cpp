// scatter_add: each tile owns a block of rows of the result, looks through all indices and adds the
// updates of its rows in their order. Long rows are worth more blocks, for each reads all indices.
#include <algorithm>
#include <cstring>

#include "sluice/devices/cpu/kernels/blocks.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/moves.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"

namespace sluice::devices::cpu {
namespace {

/// Blocks that rows of `inner` elements are cut into at most.
constexpr std::int64_t blocksOf(std::int64_t inner) {
  return std::clamp<std::int64_t>(inner / 4, 1, 32);
}

/// Rows shorter than this are added in place, not by a call.
constexpr std::int64_t kShortRow = 16;

class ScatterAdd : public Kernel {
 public:
  explicit ScatterAdd(const ir::OpView& op)
      : name_(op.def.name),
        dtype_(op.inputs[0].dtype),
        indexType_(op.inputs[1].dtype),
        count_(op.inputs[1].shape.elements()),
        view_(ops::aroundAxis(op.inputs[0].shape, ops::axisAttr(op, op.inputs[0].shape))),
        rows_(std::max(itemsPerTile(view_.inner), ceilDiv(view_.extent, blocksOf(view_.inner)))),
        blocks_(ceilDiv(view_.extent, rows_)) {}

  void run(const KernelRun& run) override {
    withIndices(indexType_, run.inputs[1], [&](const auto* indices) {
      if (view_.outer * view_.inner != 0) {
        checkIndices(name_, indices, count_, view_.extent);
      }
      run.workers.parallelFor(view_.outer * blocks_, [&](std::int64_t tile) {
        dispatch(dtype_, [&]<class T>(T) { runBlock<T>(run, indices, tile); });
      });
    });
  }

 private:
  template <class T, class Index>
  void runBlock(const KernelRun& run, const Index* indices, std::int64_t tile) const {
    const std::int64_t outer = tile / blocks_;
    const std::int64_t first = tile % blocks_ * rows_;
    const std::int64_t rows = std::min(rows_, view_.extent - first);
    const std::int64_t at = (outer * view_.extent + first) * view_.inner;
    T* out = run.out<T>(0) + at;
    if (rows * view_.inner == 0) {
      return;  // an empty tensor may have no memory at all
    }
    std::memcpy(out, run.in<T>(0) + at, static_cast<std::size_t>(rows * view_.inner) * sizeof(T));
    const T* updates = run.in<T>(2) + outer * count_ * view_.inner;
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t row = resolved(indices[i], view_.extent) - first;
      if (row >= 0 && row < rows) {
        addRow(updates + i * view_.inner, out + row * view_.inner);
      }
    }
  }

  template <class T>
  void addRow(const T* update, T* row) const {
    if constexpr (std::is_same_v<T, float>) {
      if (view_.inner >= kShortRow) {
        return add_({.in = {row, update}, .out = row, .n = view_.inner});
      }
      for (std::int64_t i = 0; i < view_.inner; ++i) {
        row[i] += update[i];
      }
    } else {
      for (std::int64_t i = 0; i < view_.inner; ++i) {
        row[i] =
            ops::narrow<T>(static_cast<ops::Wide<T>>(ops::widen(row[i]) + ops::widen(update[i])));
      }
    }
  }

  std::string_view name_;
  DType dtype_;
  DType indexType_;
  std::int64_t count_;
  ops::AxisView view_;
  std::int64_t rows_;    ///< of the result, in a block
  std::int64_t blocks_;  ///< along the axis
  BlockFunction add_ = findF32Function("add");
};

}  // namespace

bool supportsScatterAdd(const ir::OpView& op) {
  return heldAs(op.inputs[0].dtype) == op.inputs[0].dtype;
}

std::unique_ptr<Kernel> makeScatterAdd(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<ScatterAdd>(op);
}

}  // namespace sluice::devices::cpu
