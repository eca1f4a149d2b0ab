#include "sluice/base/philox.h"

#include <cmath>
#include <numbers>

namespace sluice {

std::array<double, 2> normalPair(std::uint32_t first, std::uint32_t second) {
  // (0, 1]: the logarithm is finite.
  const double u = (static_cast<double>(first) + 1.0) * 0x1p-32;
  const double v = static_cast<double>(second) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

double standardNormal(const RandomStream& stream, std::uint64_t element) {
  const PhiloxBlock block = stream.block(element / 4);
  const std::size_t pair = (element % 4) & ~std::uint64_t{1};
  return normalPair(block[pair], block[pair + 1])[element % 2];
}

}  // namespace sluice
