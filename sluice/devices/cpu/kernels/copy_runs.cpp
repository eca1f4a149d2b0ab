#include "sluice/devices/cpu/kernels/copy_runs.h"

#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/copy_runs.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// The last vector of a run overlaps the one before it.
void copyEach(const float* from, float* to, const RunShape& shape, const RunSteps& steps) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t last = shape.length - lanes;
  for (std::int64_t run = 0; run < shape.count; ++run, from += steps.from, to += steps.to) {
    for (std::int64_t i = 0; i < last; i += lanes) {
      hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    }
    hn::StoreU(hn::LoadU(d, from + last), d, to + last);
  }
}

}  // namespace
}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
namespace {
HWY_EXPORT(copyEach);
}  // namespace

void copyRuns(const float* from, float* to, const RunShape& shape, const RunSteps& steps) {
  HWY_DYNAMIC_DISPATCH(copyEach)(from, to, shape, steps);
}

}  // namespace sluice::devices::cpu
#endif  // HWY_ONCE
