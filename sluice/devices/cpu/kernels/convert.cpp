#include "sluice/devices/cpu/kernels/convert.h"

#include <algorithm>

#include "sluice/base/error.h"

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

template <class F>
void withHalf(DType dtype, const F& f) {
  if (dtype == DType::F16) {
    f(Float16{});
  } else {
    SLUICE_CHECK(dtype == DType::BF16, "conversion of {}", name(dtype));
    f(BFloat16{});
  }
}

}  // namespace

void toFloat(DType dtype, const void* from, float* to, std::int64_t count) {
  withHalf(dtype, [&]<class T>(T) {
    const T* source = static_cast<const T*>(from);
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<float>(source[i]);
    }
  });
}

void fromFloat(DType dtype, const float* from, void* to, std::int64_t count) {
  withHalf(dtype, [&]<class T>(T) {
    T* target = static_cast<T*>(to);
    for (std::int64_t i = 0; i < count; ++i) {
      target[i] = T(from[i]);
    }
  });
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
