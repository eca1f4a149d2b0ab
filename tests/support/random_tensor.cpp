#include "tests/support/random_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/base/philox.h"

namespace sluice::testing {

HostTensor randomTensor(std::uint64_t seed, const TensorType& type, double low, double high) {
  HostTensor tensor(type);
  const RandomStream stream{seed, 7, 0};
  for (std::int64_t i = 0; i < type.shape.elements(); ++i) {
    const double u = static_cast<double>(uniform01(stream.word(static_cast<std::uint64_t>(i))));
    double value = low + (high - low) * u;
    if (type.dtype == DType::Bool) {
      value = u < 0.5 ? 0 : 1;
    } else if (isInteger(type.dtype)) {
      value = std::floor(value);
    }
    tensor.set(i, value);
  }
  return tensor;
}

double relativeDifference(const HostTensor& a, const HostTensor& b) {
  if (a.type() != b.type()) {
    return std::numeric_limits<double>::infinity();
  }
  double worst = 0;
  for (std::int64_t i = 0; i < a.shape().elements(); ++i) {
    const double x = a.at(i);
    const double y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      continue;
    }
    const double difference = std::abs(x - y) / std::max(1.0, std::abs(y));
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                   : std::max(worst, difference);
  }
  return worst;
}

double tolerance(DType dtype, std::int64_t terms) {
  const double growth = std::sqrt(static_cast<double>(std::max<std::int64_t>(terms, 1)));
  switch (dtype) {
    case DType::F64:
      return 1e-14 * growth;
    case DType::F32:
      return 2e-6 * growth;
    case DType::F16:
      return 2e-3 * growth;
    case DType::BF16:
      return 1.6e-2 * growth;
    default:
      return 0.0;
  }
}

}  // namespace sluice::testing
