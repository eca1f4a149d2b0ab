#include "sluice/devices/cpu/kernels/convert.h"

#include <algorithm>

#include "sluice/devices/cpu/kernels/blocks.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

template <class F>
void inGrains(std::int64_t count, Workers& workers, const F& convert) {
  workers.parallelFor((count + kGrain - 1) / kGrain, [&](std::int64_t grain) {
    const std::int64_t begin = grain * kGrain;
    convert(begin, std::min(count, begin + kGrain));
  });
}

}  // namespace

void toFloat(DType dtype, const void* from, float* to, std::int64_t count) {
  loadFunction(dtype)({.in = {from}, .out = to, .n = count});
}

void fromFloat(DType dtype, const float* from, void* to, std::int64_t count) {
  storeFunction(dtype)({.in = {from}, .out = to, .n = count});
}

void toFloat(DType dtype, const void* from, float* to, std::int64_t count, Workers& workers) {
  inGrains(count, workers, [&](std::int64_t begin, std::int64_t end) {
    toFloat(dtype, static_cast<const std::uint16_t*>(from) + begin, to + begin, end - begin);
  });
}

void fromFloat(DType dtype, const float* from, void* to, std::int64_t count, Workers& workers) {
  inGrains(count, workers, [&](std::int64_t begin, std::int64_t end) {
    fromFloat(dtype, from + begin, static_cast<std::uint16_t*>(to) + begin, end - begin);
  });
}

}  // namespace sluice::devices::cpu
