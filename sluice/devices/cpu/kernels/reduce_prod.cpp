// reduce_prod of float32 and float64, in double as products leave the range of a float easily:
// runs or rows of partial products in fixed grains, partial products multiplied in index order.
#include <algorithm>

#include "sluice/devices/cpu/kernel.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/reduce.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/reduce_prod.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

using Doubles = LaneTag<double>;
using DoubleVec = LaneVec<double>;

struct ProductFold {
  static constexpr float kStart = 1.0F;
  template <class V>
  static HWY_INLINE V fold(V a, V b) {
    return hn::Mul(a, b);
  }
  static double foldOne(double a, double b) { return a * b; }
};

/// A vector of doubles from elements of either type, whole or in part.
HWY_INLINE DoubleVec asDoubles(WholeVector load, const double* from) {
  return load(from);
}
HWY_INLINE DoubleVec asDoubles(PartVector load, const double* from) {
  return load(from);
}
HWY_INLINE DoubleVec asDoubles(WholeVector /*load*/, const float* from) {
  return hn::PromoteTo(Doubles(), hn::LoadU(hn::Rebind<float, Doubles>(), from));
}
HWY_INLINE DoubleVec asDoubles(PartVector load, const float* from) {
  return hn::PromoteTo(Doubles(), loadSome(hn::Rebind<float, Doubles>(), from, load.count));
}

/// Inner reduced: one partial number of result `o`.
template <class T>
double productOf(const ReducePlan& plan, const T* in, std::int64_t o, std::int64_t partial) {
  const T* base = in + plan.kept.offset(o);
  const std::int64_t group = partial / plan.grainsPerRun;
  const std::int64_t column = partial % plan.grainsPerRun * plan.grain;
  const auto length = static_cast<std::size_t>(std::min(plan.run - column, plan.grain));
  const std::int64_t last = std::min((group + 1) * plan.runsPerPartial, plan.reduced.count());
  double total = 1.0;
  for (std::int64_t r = group * plan.runsPerPartial; r < last; ++r) {
    const T* row = base + plan.reduced.offset(r) + column;
    const auto at = [row](auto load, std::size_t i) HWY_ATTR { return asDoubles(load, row + i); };
    total *= foldRow<ProductFold, double>(length, at);
  }
  return total;
}

template <class T>
void multiplyRuns(const ReducePlan& plan, const KernelRun& run) {
  const std::int64_t results = plan.kept.count();
  const std::int64_t items = results * plan.partials;
  const std::int64_t perTile = itemsPerTile(std::min(plan.grain, plan.run) * plan.runsPerPartial);
  auto* products = static_cast<double*>(run.scratch);
  run.workers.parallelFor(ceilDiv(items, perTile), [&](std::int64_t tile) {
    const std::int64_t last = std::min(items, (tile + 1) * perTile);
    for (std::int64_t i = tile * perTile; i < last; ++i) {
      products[i] = productOf(plan, run.in<T>(0), i / plan.partials, i % plan.partials);
    }
  });
  for (std::int64_t o = 0; o < results; ++o) {
    double total = 1.0;
    for (std::int64_t p = 0; p < plan.partials; ++p) {
      total *= products[o * plan.partials + p];
    }
    run.out<T>(0)[o] = static_cast<T>(total);
  }
}

constexpr auto kChunk = static_cast<std::int64_t>(kMaxColumns);

/// Inner kept: rows of partial products, by chunks of columns, then their product.
template <class T>
void multiplyColumns(const ReducePlan& plan, const KernelRun& run) {
  const std::int64_t rows = plan.reduced.count();
  const std::int64_t width = plan.run * plan.wide;
  const std::int64_t parts = plan.partials * plan.wide;
  const std::int64_t chunks = ceilDiv(width, kChunk);
  auto* products = static_cast<double*>(run.scratch);
  run.workers.parallelFor(
      plan.kept.count() * plan.partials * chunks, [&](std::int64_t tile) HWY_ATTR {
        const std::int64_t item = tile / chunks;
        const std::int64_t column = tile % chunks * kChunk;
        const auto columns = static_cast<std::size_t>(std::min(kChunk, width - column));
        const T* base = run.in<T>(0) + plan.kept.offset(item / plan.partials) + column;
        double* to = products + item * width + column;
        fillRow(columns, to, 1.0);
        const std::int64_t first = item % plan.partials * plan.rowsPerPartial;
        const std::int64_t last = std::min(rows, first + plan.rowsPerPartial);
        for (std::int64_t r = first; r < last; ++r) {
          const T* row = base + plan.reduced.offset(r);
          mapRow(columns, to, [&](auto load, std::size_t c) HWY_ATTR {
            return hn::Mul(load(to + c), asDoubles(load, row + c));
          });
        }
      });
  for (std::int64_t i = 0; i < plan.kept.count() * plan.run; ++i) {
    const double* from = products + i / plan.run * parts * plan.run + i % plan.run;
    double total = 1.0;
    for (std::int64_t p = 0; p < parts; ++p) {
      total *= from[p * plan.run];
    }
    run.out<T>(0)[i] = static_cast<T>(total);
  }
}

template <class T>
void multiplyAs(const ReducePlan& plan, const KernelRun& run) {
  if (plan.innerReduced) {
    multiplyRuns<T>(plan, run);
  } else {
    multiplyColumns<T>(plan, run);
  }
}

}  // namespace

void runReduceProd(const ReducePlan& plan, const KernelRun& run) {
  if (plan.dtype == DType::F64) {
    multiplyAs<double>(plan, run);
  } else {
    multiplyAs<float>(plan, run);
  }
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(runReduceProd);

class ReduceProd : public Kernel {
 public:
  explicit ReduceProd(ReducePlan plan) : plan_(std::move(plan)) {}
  void run(const KernelRun& run) override { HWY_DYNAMIC_DISPATCH(runReduceProd)(plan_, run); }

 private:
  ReducePlan plan_;
};

}  // namespace

device::Choice chooseReduceProd(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const ReducePlan plan = planReduce(op, device::Layout::plain());
  const std::int64_t products =
      plan.kept.count() * plan.partials * (plan.innerReduced ? 1 : plan.run * plan.wide);
  choice.scratchBytes = static_cast<std::size_t>(products) * sizeof(double);
  return choice;
}

std::unique_ptr<Kernel> makeReduceProd(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<ReduceProd>(planReduce(op, device::Layout::plain()));
}

}  // namespace sluice::devices::cpu
#endif
