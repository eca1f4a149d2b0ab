#include "sluice/ops/float8.h"

#include <cmath>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {

std::uint8_t toFloat8(double x, const Float8Format& format, Overflow overflow) {
  if (std::isnan(x)) {
    return kFloat8NaN;
  }
  const unsigned sign = std::signbit(x) ? 0x80U : 0U;
  const double size = std::abs(x);
  const int highest = format.highestExponent();
  int exponent = format.lowestExponent();
  if (size >= std::ldexp(1.0, exponent)) {
    exponent = std::isinf(size) ? highest + 1 : std::ilogb(size);
  }
  unsigned fraction = 0;  // with the leading 1
  if (exponent <= highest) {
    fraction =
        static_cast<unsigned>(std::nearbyint(std::ldexp(size, format.fractionBits - exponent)));
    if (fraction == 2U << static_cast<unsigned>(format.fractionBits)) {
      fraction /= 2;
      ++exponent;
    }
  }
  if (exponent > highest) {
    return static_cast<std::uint8_t>(overflow == Overflow::NaN ? kFloat8NaN : sign | 0x7FU);
  }
  if (fraction == 0) {
    return 0;
  }
  // Without a leading 1 the number is subnormal: its exponent field is 0 instead of 1.
  const auto steps = static_cast<unsigned>(exponent - format.lowestExponent());
  return static_cast<std::uint8_t>(
      sign | ((steps << static_cast<unsigned>(format.fractionBits)) + fraction));
}

double fromFloat8(std::uint8_t bits, const Float8Format& format) {
  if (bits == kFloat8NaN) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto fractionBits = static_cast<unsigned>(format.fractionBits);
  const unsigned one = 1U << fractionBits;
  const unsigned field = (bits & 0x7FU) >> fractionBits;
  const unsigned fraction = (bits & (one - 1)) + (field == 0 ? 0 : one);
  const int exponent = format.lowestExponent() + (field == 0 ? 0 : static_cast<int>(field) - 1);
  const double size = std::ldexp(static_cast<double>(fraction), exponent - format.fractionBits);
  return (bits & 0x80U) != 0 ? -size : size;
}

const Float8Format& float8FormatOf(const ir::OpView& op) {
  const std::string& name = op.attrs.text("format");
  for (const Float8Format* format : {&kF143, &kF152}) {
    if (name == format->name) {
      return *format;
    }
  }
  raise<InvalidArgument>("{}: the format must be f143 or f152, got '{}'", op.def.name, name);
}

void requireLog2Scale(const ir::OpView& op) {
  const TensorType& scale = op.inputs[1];
  if (isFloat(scale.dtype) || scale.dtype == DType::Bool || scale.shape.elements() != 1) {
    raise<InvalidArgument>(
        "{}: the scale must be one whole number, got {}", op.def.name, scale.str());
  }
}

int log2ScaleOf(const ir::KernelArgs& args) {
  constexpr std::int64_t kLowest = -32;
  constexpr std::int64_t kHighest = 31;
  std::int64_t scale = 0;
  dispatch(args.op.inputs[1].dtype,
           [&]<class T>(T) { scale = static_cast<std::int64_t>(widen(args.in<T>(1)[0])); });
  if (scale < kLowest || scale > kHighest) {
    raise<DeviceError>("{}: the power of two must be from {} to {}, got {}",
                       args.op.def.name,
                       kLowest,
                       kHighest,
                       scale);
  }
  return static_cast<int>(scale);
}

}  // namespace sluice::ops
