// cumsum: lines along the axis are walked in order, neighbouring lines side by side. The running
// sums are held in the wide type, so the bits are those of the plain loop.
#include <algorithm>
#include <array>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/layout.h"

namespace sluice::devices::cpu {
namespace {

/// Lines that run side by side.
constexpr std::int64_t kColumns = 256;

class CumSum : public Kernel {
 public:
  explicit CumSum(const ir::OpView& op)
      : dtype_(op.inputs[0].dtype),
        view_(ops::aroundAxis(op.inputs[0].shape, ops::axisAttr(op, op.inputs[0].shape))),
        exclusive_(op.attrs.flag("exclusive")),
        reverse_(op.attrs.flag("reverse")) {}

  void run(const KernelRun& run) override {
    const std::int64_t chunks = ceilDiv(view_.inner, kColumns);
    const std::int64_t items = view_.outer * chunks;
    const std::int64_t perTile = itemsPerTile(view_.extent * std::min(view_.inner, kColumns));
    run.workers.parallelFor(ceilDiv(items, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(items, (tile + 1) * perTile);
      for (std::int64_t item = tile * perTile; item < last; ++item) {
        const std::int64_t column = item % chunks * kColumns;
        const std::int64_t first = item / chunks * view_.extent * view_.inner + column;
        const std::int64_t columns = std::min(kColumns, view_.inner - column);
        dispatch(dtype_,
                 [&]<class T>(T) { addUp(run.in<T>(0) + first, run.out<T>(0) + first, columns); });
      }
    });
  }

 private:
  template <class T>
  void addUp(const T* in, T* out, std::int64_t columns) const {
    using W = ops::Wide<T>;
    if (view_.inner == 1) {
      return addLine(in, out);
    }
    std::array<W, kColumns> sums = {};
    for (std::int64_t k = 0; k < view_.extent; ++k) {
      const std::int64_t row = (reverse_ ? view_.extent - 1 - k : k) * view_.inner;
      for (std::int64_t c = 0; c < columns; ++c) {
        W& sum = sums[static_cast<std::size_t>(c)];
        const W next = ops::wrappedSum(sum, ops::widen(in[row + c]));
        out[row + c] = ops::narrow<T>(exclusive_ ? sum : next);
        sum = next;
      }
    }
  }

  template <class T>
  void addLine(const T* in, T* out) const {
    using W = ops::Wide<T>;
    W sum{};
    for (std::int64_t k = 0; k < view_.extent; ++k) {
      const std::int64_t at = reverse_ ? view_.extent - 1 - k : k;
      const W next = ops::wrappedSum(sum, ops::widen(in[at]));
      out[at] = ops::narrow<T>(exclusive_ ? sum : next);
      sum = next;
    }
  }

  DType dtype_;
  ops::AxisView view_;
  bool exclusive_;
  bool reverse_;
};

}  // namespace

std::unique_ptr<Kernel> makeCumSum(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<CumSum>(op);
}

}  // namespace sluice::devices::cpu
