#include <array>

#include "sluice/tensor/shape.h"

namespace sluice {
namespace {

struct Row {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<Row, kNumDTypes> kRows = {{{"f32", 4},
                                                {"f16", 2},
                                                {"bf16", 2},
                                                {"f64", 8},
                                                {"i8", 1},
                                                {"u8", 1},
                                                {"i16", 2},
                                                {"u16", 2},
                                                {"i32", 4},
                                                {"u32", 4},
                                                {"i64", 8},
                                                {"u64", 8},
                                                {"bool", 1}}};

}  // namespace

std::size_t byteSize(DType dtype) {
  return kRows[static_cast<std::size_t>(dtype)].bytes;
}

std::string_view name(DType dtype) {
  return kRows[static_cast<std::size_t>(dtype)].name;
}

std::optional<DType> parseDType(std::string_view text) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == text) {
      return static_cast<DType>(i);
    }
  }
  return std::nullopt;
}

Float16::Float16(float value) {
  const auto x = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (x >> 16) & 0x8000U;
  const std::uint32_t magnitude = x & 0x7fffffffU;
  std::uint32_t result = 0;
  if (magnitude >= 0x7f800000U) {  // infinity or NaN; NaN stays NaN
    result = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  } else if (magnitude >= 0x477ff000U) {  // rounds to 65536 or more
    result = 0x7c00U;
  } else if (magnitude >= 0x38800000U) {  // normal: re-bias the exponent, round to nearest even
    const std::uint32_t odd = (magnitude >> 13) & 1U;
    result = (magnitude - 0x38000000U + 0xfffU + odd) >> 13;
  } else {  // subnormal or zero: adding 0.5 puts the rounded mantissa in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    result = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
  }
  bits = static_cast<std::uint16_t>(result | sign);
}

Float16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1fU) {
    return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

BFloat16::BFloat16(float value) {
  const auto x = std::bit_cast<std::uint32_t>(value);
  if ((x & 0x7fffffffU) > 0x7f800000U) {
    bits = static_cast<std::uint16_t>((x >> 16) | 0x40U);
  } else {
    bits = static_cast<std::uint16_t>((x + 0x7fffU + ((x >> 16) & 1U)) >> 16);
  }
}

BFloat16::operator float() const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace sluice
