#include "sluice/base/philox.h"

#include <cmath>
#include <numbers>

namespace sluice {

double standardNormal(const RandomStream& stream, std::uint64_t element) {
  const PhiloxBlock block = stream.block(element / 4);
  const std::size_t pair = (element % 4) & ~std::uint64_t{1};
  // (0, 1]: the logarithm is finite.
  const double u = (static_cast<double>(block[pair]) + 1.0) * 0x1p-32;
  const double v = static_cast<double>(block[pair + 1]) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return element % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

}  // namespace sluice
