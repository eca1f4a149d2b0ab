// argmax: rows of float32 by vector code (the maximum, then the first place that has it), all else
// by plain loops over lines that run side by side. NaN counts as largest, the first of several
// wins.
#include <algorithm>
#include <array>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/argmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {

std::int64_t largestOfRow(const float* x, std::size_t n) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto top = static_cast<float>(
      foldRow<MaxFold>(n, [x](auto load, std::size_t i) HWY_ATTR { return load(x + i); }));
  const bool nan = top != top;
  const FloatVec wanted = hn::Set(d, top);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const FloatVec v = hn::LoadU(d, x + i);
    const auto hits = nan ? hn::IsNaN(v) : hn::Eq(v, wanted);
    if (!hn::AllFalse(d, hits)) {
      return static_cast<std::int64_t>(i) + static_cast<std::int64_t>(hn::FindFirstTrue(d, hits));
    }
  }
  while (i + 1 < n && !(nan ? x[i] != x[i] : x[i] == top)) {
    ++i;
  }
  return static_cast<std::int64_t>(i);
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(largestOfRow);

/// Lines that run side by side.
constexpr std::int64_t kColumns = 256;

class ArgMax : public Kernel {
 public:
  explicit ArgMax(const ir::OpView& op)
      : dtype_(op.inputs[0].dtype),
        view_(ops::aroundAxis(op.inputs[0].shape, ops::axisAttr(op, op.inputs[0].shape))) {}

  void run(const KernelRun& run) override {
    const std::int64_t chunks = ceilDiv(view_.inner, kColumns);
    const std::int64_t items = view_.outer * chunks;
    const std::int64_t perTile = itemsPerTile(view_.extent * std::min(view_.inner, kColumns));
    run.workers.parallelFor(ceilDiv(items, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(items, (tile + 1) * perTile);
      for (std::int64_t item = tile * perTile; item < last; ++item) {
        findIn(run, item / chunks, item % chunks * kColumns);
      }
    });
  }

 private:
  void findIn(const KernelRun& run, std::int64_t outer, std::int64_t column) const {
    const std::int64_t first = outer * view_.extent * view_.inner + column;
    std::int64_t* out = run.out<std::int64_t>(0) + outer * view_.inner + column;
    if (dtype_ == DType::F32 && view_.inner == 1) {
      out[0] = HWY_DYNAMIC_DISPATCH(largestOfRow)(run.in<float>(0) + first,
                                                  static_cast<std::size_t>(view_.extent));
      return;
    }
    dispatch(dtype_, [&]<class T>(T) {
      findLargest(run.in<T>(0) + first, out, std::min(kColumns, view_.inner - column));
    });
  }

  template <class T>
  void findLargest(const T* in, std::int64_t* out, std::int64_t columns) const {
    std::array<ops::Wide<T>, kColumns> best = {};
    for (std::int64_t c = 0; c < columns; ++c) {
      best[static_cast<std::size_t>(c)] = ops::widen(in[c]);
      out[c] = 0;
    }
    for (std::int64_t k = 1; k < view_.extent; ++k) {
      for (std::int64_t c = 0; c < columns; ++c) {
        ops::Wide<T>& held = best[static_cast<std::size_t>(c)];
        const ops::Wide<T> value = ops::widen(in[k * view_.inner + c]);
        if (!ops::notANumber(held) && (ops::notANumber(value) || held < value)) {
          held = value;
          out[c] = k;
        }
      }
    }
  }

  DType dtype_;
  ops::AxisView view_;
};

}  // namespace

bool supportsArgMax(const ir::OpView& op) {
  return heldAs(op.inputs[0].dtype) == op.inputs[0].dtype;
}

std::unique_ptr<Kernel> makeArgMax(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<ArgMax>(op);
}

}  // namespace sluice::devices::cpu
#endif
