#include <algorithm>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/reduce.h"
#include "sluice/ops/reduce.h"

namespace sluice::devices::cpu {
namespace {

/// Elements of a long run that are folded to one partial.
constexpr std::int64_t kRunGrain = 16384;

struct Axis {
  std::int64_t extent;
  bool reduced;
};

/// The axes in storage order, neighbours of one kind merged, extents of 1 dropped.
std::vector<Axis> mergedAxes(const ir::OpView& op, const device::Layout& layout) {
  const std::vector<bool> reduced = ops::reducedAxes(op);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    if (layout.isPlain() || i != 1) {
      order.push_back(i);
    }
  }
  if (!layout.isPlain()) {
    order.push_back(1);
  }
  std::vector<Axis> axes;
  for (const std::size_t i : order) {
    const std::int64_t extent = op.inputs[0].shape.dims()[i];
    if (extent == 1) {
      continue;
    }
    if (!axes.empty() && axes.back().reduced == reduced[i]) {
      axes.back().extent *= extent;
    } else {
      axes.push_back({extent, reduced[i]});
    }
  }
  if (axes.empty()) {
    axes.push_back({1, true});
  }
  return axes;
}

}  // namespace

std::int64_t StridedAxes::count() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) {
    product *= extent;
  }
  return product;
}

std::int64_t StridedAxes::offset(std::int64_t number) const {
  std::int64_t result = 0;
  for (std::size_t i = extents.size(); i-- > 0;) {
    result += number % extents[i] * strides[i];
    number /= extents[i];
  }
  return result;
}

std::int64_t ReducePlan::scratch() const {
  if (partials * wide == 1) {
    return 0;
  }
  return kept.count() * partials * (innerReduced ? 1 : run * wide);
}

namespace {

/// The columns of a row that vectors are worth.
constexpr std::int64_t kWideRow = 256;

/// Short runs that lie behind one another become one row, if there are many.
void widen(ReducePlan& plan) {
  if (plan.reduced.extents.empty() || plan.reduced.strides.back() != plan.run) {
    return;
  }
  std::int64_t& rows = plan.reduced.extents.back();
  std::int64_t wide = std::min(kWideRow / std::max<std::int64_t>(plan.run, 1), rows / 8);
  while (wide > 1 && rows % wide != 0) {
    --wide;
  }
  if (wide > 1) {
    plan.wide = wide;
    rows /= wide;
    plan.reduced.strides.back() *= wide;
  }
}

}  // namespace

ReducePlan planReduce(const ir::OpView& op, const device::Layout& layout) {
  const std::vector<Axis> axes = mergedAxes(op, layout);
  ReducePlan plan;
  plan.dtype = op.inputs[0].dtype;
  plan.innerReduced = axes.back().reduced;
  plan.run = axes.back().extent;
  std::int64_t stride = plan.run;
  for (std::size_t i = axes.size() - 1; i-- > 0;) {
    StridedAxes& list = axes[i].reduced ? plan.reduced : plan.kept;
    list.extents.insert(list.extents.begin(), axes[i].extent);
    list.strides.insert(list.strides.begin(), stride);
    stride *= axes[i].extent;
  }
  const std::int64_t rows = plan.reduced.count();
  plan.terms = rows * (plan.innerReduced ? plan.run : 1);
  if (plan.innerReduced) {
    plan.grain = kRunGrain;
    plan.grainsPerRun = std::max<std::int64_t>(1, ceilDiv(plan.run, plan.grain));
    plan.runsPerPartial = plan.grainsPerRun > 1 ? 1 : itemsPerTile(plan.run);
    plan.partials = ceilDiv(rows, plan.runsPerPartial) * plan.grainsPerRun;
  } else {
    widen(plan);
    plan.rowsPerPartial = rowsPerGrain(rows / plan.wide, plan.run * plan.wide);
    plan.partials = ceilDiv(rows / plan.wide, plan.rowsPerPartial);
  }
  return plan;
}

}  // namespace sluice::devices::cpu
