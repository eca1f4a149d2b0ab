// reduce_sum, reduce_mean, reduce_max and reduce_min of float32 and float64: runs folded to partial
// results in fixed grains, partial results folded in index order.
#include "sluice/devices/cpu/kernels/reduce.h"

#include "sluice/devices/cpu/kernel.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

/// Inner reduced: one partial number of result `o`.
template <class Fold, class T>
double foldPartial(const ReducePlan& plan, const T* in, std::int64_t o, std::int64_t partial) {
  const T* base = in + plan.kept.offset(o);
  const std::int64_t group = partial / plan.grainsPerRun;
  const std::int64_t column = partial % plan.grainsPerRun * plan.grain;
  const auto length = static_cast<std::size_t>(std::min(plan.run - column, plan.grain));
  const std::int64_t last = std::min((group + 1) * plan.runsPerPartial, plan.reduced.count());
  double total = static_cast<double>(Fold::kStart);
  for (std::int64_t r = group * plan.runsPerPartial; r < last; ++r) {
    const T* row = base + plan.reduced.offset(r) + column;
    const auto at = [row](auto load, std::size_t i) HWY_ATTR { return load(row + i); };
    total = Fold::foldOne(total, foldRow<Fold, T>(length, at));
  }
  return total;
}

template <class Fold, class T>
void reduceRuns(const ReducePlan& plan, double divisor, const KernelRun& run) {
  const auto* in = run.in<T>(0);
  auto* out = run.out<T>(0);
  auto* scratch = static_cast<T*>(run.scratch);
  const std::int64_t results = plan.kept.count();
  const auto finish = [&](double total) { return static_cast<T>(total / divisor); };
  const std::int64_t items = results * plan.partials;
  const std::int64_t perTile = itemsPerTile(std::min(plan.grain, plan.run) * plan.runsPerPartial);
  run.workers.parallelFor(ceilDiv(items, perTile), [&](std::int64_t tile) {
    const std::int64_t last = std::min(items, (tile + 1) * perTile);
    for (std::int64_t i = tile * perTile; i < last; ++i) {
      const double total = foldPartial<Fold>(plan, in, i / plan.partials, i % plan.partials);
      if (plan.partials == 1) {
        out[i] = finish(total);
      } else {
        scratch[i] = static_cast<T>(total);
      }
    }
  });
  for (std::int64_t o = 0; o < results && plan.partials != 1; ++o) {
    double total = static_cast<double>(Fold::kStart);
    for (std::int64_t p = 0; p < plan.partials; ++p) {
      total = Fold::foldOne(total, static_cast<double>(scratch[o * plan.partials + p]));
    }
    out[o] = finish(total);
  }
}

/// `at` gives the start of a row.
template <class Fold, class T, class At>
void foldRows(RowRange rows, std::size_t columns, T* to, At at) {
  foldColumns<Fold>(rows, columns, to, at, [](auto load, const T* row, std::size_t c) HWY_ATTR {
    return load(row + c);
  });
}

constexpr auto kChunk = static_cast<std::int64_t>(kMaxColumns);

/// Calls body(item, column, columns) for chunks of `columns` columns of each item.
template <class F>
void forChunks(Workers& workers, std::int64_t items, std::int64_t columns, F body) {
  const std::int64_t chunks = ceilDiv(columns, kChunk);
  workers.parallelFor(items * chunks, [&](std::int64_t tile) {
    const std::int64_t column = tile % chunks * kChunk;
    body(tile / chunks, column, static_cast<std::size_t>(std::min(kChunk, columns - column)));
  });
}

/// Inner kept: partial rows of results, then their fold, both by chunks of columns.
template <class Fold, class T>
void reduceColumns(const ReducePlan& plan, double divisor, const KernelRun& run) {
  const std::int64_t rows = plan.reduced.count();
  const std::int64_t width = plan.run * plan.wide;
  const std::int64_t parts = plan.partials * plan.wide;  // rows of `run` left for the second step
  const bool direct = parts == 1;
  auto* out = run.out<T>(0);
  T* partial = direct ? out : static_cast<T*>(run.scratch);
  const std::int64_t items = plan.kept.count() * plan.partials;
  forChunks(
      run.workers, items, width, [&](std::int64_t item, std::int64_t column, std::size_t columns) {
        const T* base = run.in<T>(0) + plan.kept.offset(item / plan.partials) + column;
        const std::int64_t first = item % plan.partials * plan.rowsPerPartial;
        const RowRange range{first, std::min(rows, first + plan.rowsPerPartial)};
        foldRows<Fold>(range, columns, partial + item * width + column, [&](std::int64_t r) {
          return base + plan.reduced.offset(r);
        });
      });
  if (direct && divisor == 1.0) {
    return;
  }
  const auto by = hn::Set(LaneTag<T>(), static_cast<T>(divisor));
  forChunks(run.workers,
            plan.kept.count(),
            plan.run,
            [&](std::int64_t o, std::int64_t column, std::size_t columns) {
              T* to = out + o * plan.run + column;
              if (!direct) {
                const T* base = partial + o * parts * plan.run + column;
                foldRows<Fold>(
                    {0, parts}, columns, to, [&](std::int64_t r) { return base + r * plan.run; });
              }
              mapRow(columns, to, [&](auto load, std::size_t c) HWY_ATTR {
                return hn::Div(load(to + c), by);
              });
            });
}

template <class Fold, class T>
void reduceAs(const ReducePlan& plan, double divisor, const KernelRun& run) {
  if (plan.innerReduced) {
    reduceRuns<Fold, T>(plan, divisor, run);
  } else {
    reduceColumns<Fold, T>(plan, divisor, run);
  }
}

template <class Fold>
void reduceBy(const ReducePlan& plan, double divisor, const KernelRun& run) {
  if (plan.dtype == DType::F64) {
    reduceAs<Fold, double>(plan, divisor, run);
  } else {
    reduceAs<Fold, float>(plan, divisor, run);
  }
}

}  // namespace

void runReduce(const ReducePlan& plan, ReduceKind kind, const KernelRun& run) {
  switch (kind) {
    case ReduceKind::Sum:
      return reduceBy<SumFold>(plan, 1.0, run);
    case ReduceKind::Mean:
      return reduceBy<SumFold>(plan, static_cast<double>(plan.terms), run);
    case ReduceKind::Max:
      return reduceBy<MaxFold>(plan, 1.0, run);
    case ReduceKind::Min:
      return reduceBy<MinFold>(plan, 1.0, run);
  }
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/ops/reduce.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(runReduce);

ReduceKind kindOf(const ir::OpView& op) {
  if (op.def.name == "reduce_mean") {
    return ReduceKind::Mean;
  }
  if (op.def.name == "reduce_max") {
    return ReduceKind::Max;
  }
  return op.def.name == "reduce_min" ? ReduceKind::Min : ReduceKind::Sum;
}

class Reduce : public Kernel {
 public:
  Reduce(ReducePlan plan, ReduceKind kind) : plan_(std::move(plan)), kind_(kind) {}
  void run(const KernelRun& run) override { HWY_DYNAMIC_DISPATCH(runReduce)(plan_, kind_, run); }

 private:
  ReducePlan plan_;
  ReduceKind kind_;
};

/// Gradients of biases: convolutions hand them over in channels-last storage.
bool keepsChannelsOnly(const ir::OpView& op) {
  const std::vector<bool> reduced = ops::reducedAxes(op);
  if (reduced.size() < 3 || reduced.size() > 5) {
    return false;
  }
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i] == (i == 1)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool supportsReduce(const ir::OpView& op) {
  return op.inputs[0].dtype == DType::F32 || op.inputs[0].dtype == DType::F64;
}

device::Choice chooseReduce(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  if (keepsChannelsOnly(op)) {
    choice.inputs[0] = device::Layout::channelsLast();
  }
  choice.scratchBytes = static_cast<std::size_t>(planReduce(op, choice.inputs[0]).scratch()) *
                        byteSize(op.inputs[0].dtype);
  return choice;
}

std::unique_ptr<Kernel> makeReduce(const ir::OpView& op, const device::Choice& choice) {
  return std::make_unique<Reduce>(planReduce(op, choice.inputs[0]), kindOf(op));
}

}  // namespace sluice::devices::cpu
#endif
