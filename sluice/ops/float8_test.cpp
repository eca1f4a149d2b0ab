// Both formats of 8-bit floats, all 256 numbers of each: values, rounding, overflow.
#include "sluice/ops/float8.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/vendor.h"
#include "tests/support/message_of.h"

namespace sluice::ops {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Float8 : public ::testing::TestWithParam<Float8Format> {
 protected:
  double value(int bits) const { return fromFloat8(static_cast<std::uint8_t>(bits), GetParam()); }
  int bits(double x, Overflow overflow = Overflow::Clip) const {
    return toFloat8(x, GetParam(), overflow);
  }
};

TEST_P(Float8, CountsUpInStepsThatDoubleWithEachExponent) {
  const int perExponent = 1 << GetParam().fractionBits;
  EXPECT_EQ(value(0), 0);
  // The first two exponents share the step of the smallest number.
  double step = std::exp2(1 - GetParam().bias - GetParam().fractionBits);
  double expected = 0;
  for (int i = 1; i < 128; ++i) {
    expected += step;
    EXPECT_EQ(value(i), expected) << i;
    EXPECT_EQ(value(i | 0x80), -expected) << i;
    if (i % perExponent == 0 && i / perExponent > 1) {
      step *= 2;
    }
  }
  EXPECT_THAT(value(0x80), IsNan());
}

TEST_P(Float8, ComesBackFromEveryNumber) {
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(bits(value(i)), i);
    EXPECT_EQ(bits(value(i), Overflow::NaN), i);
  }
}

TEST_P(Float8, RoundsToTheNearestAndTiesToEven) {
  for (int i = 0; i < 127; ++i) {
    const double middle = (value(i) + value(i + 1)) / 2;
    const int even = i % 2 == 0 ? i : i + 1;
    for (const int sign : {0, 0x80}) {
      const double s = sign == 0 ? 1 : -1;
      const auto signedBits = [&](int of) { return of == 0 ? 0 : of | sign; };
      EXPECT_EQ(bits(s * middle), signedBits(even)) << i;
      EXPECT_EQ(bits(s * std::nextafter(middle, 0.0)), signedBits(i)) << i;
      EXPECT_EQ(bits(s * std::nextafter(middle, kInfinity)), signedBits(i + 1)) << i;
    }
  }
  EXPECT_EQ(bits(-0.0), 0);
  EXPECT_EQ(bits(std::numeric_limits<double>::denorm_min()), 0);
}

TEST_P(Float8, ClipsOrGivesNaNBeyondTheLargestNumber) {
  const double largest = value(127);
  const double half = (largest - value(126)) / 2;
  EXPECT_EQ(bits(std::nextafter(largest + half, 0.0), Overflow::NaN), 127);
  for (const double beyond : {largest + half, 2 * largest, 1e300, kInfinity}) {
    EXPECT_EQ(bits(beyond), 0x7F);
    EXPECT_EQ(bits(-beyond), 0xFF);
    EXPECT_EQ(bits(beyond, Overflow::NaN), kFloat8NaN);
    EXPECT_EQ(bits(-beyond, Overflow::NaN), kFloat8NaN);
  }
  EXPECT_EQ(bits(std::numeric_limits<double>::quiet_NaN()), kFloat8NaN);
}

INSTANTIATE_TEST_SUITE_P(Formats, Float8, ::testing::Values(kF143, kF152), [](const auto& format) {
  return std::string(format.param.name);
});

TEST(Float8Formats, HaveTheRangesOfTheVendor) {
  EXPECT_EQ(fromFloat8(0x7F, kF143), 240);
  EXPECT_EQ(fromFloat8(0x01, kF143), std::exp2(-10));
  EXPECT_EQ(fromFloat8(0x08, kF143), std::exp2(-7));
  EXPECT_EQ(fromFloat8(0x40, kF143), 1);
  EXPECT_EQ(fromFloat8(0x7F, kF152), 57344);
  EXPECT_EQ(fromFloat8(0x01, kF152), std::exp2(-17));
  EXPECT_EQ(fromFloat8(0x04, kF152), std::exp2(-15));
  EXPECT_EQ(fromFloat8(0x40, kF152), 1);
}

HostTensor scale(std::int32_t power) {
  return HostTensor::scalar(power);
}

TEST(Pow2ScaleThenCast, ScalesBeforeItRounds) {
  const HostTensor x = HostTensor::of<float>({4}, {1, -0.25, 300, 0.3F});
  // 4, -1, 240 (clipped) and 1.2, between 1.125 and 1.25
  EXPECT_THAT(evaluate(kPow2ScaleThenCast, {}, {x, scale(2)})[0].toDoubles(),
              ElementsAre(0x50, 0xC0, 0x7F, 0x42));
  EXPECT_THAT(evaluate(kPow2ScaleThenCast, {{"nanOnOverflow", true}}, {x, scale(2)})[0].toDoubles(),
              ElementsAre(0x50, 0xC0, 0x80, 0x42));
}

TEST(CastThenPow2Scale, ScalesWhatTheBitsMean) {
  const HostTensor x = HostTensor::of<std::uint8_t>({3}, {0x50, 0xC0, 0x01});
  EXPECT_THAT(evaluate(kCastThenPow2Scale, {}, {x, scale(-2)})[0].toDoubles(),
              ElementsAre(1, -0.25, std::exp2(-12)));
  const HostTensor wide =
      evaluate(kCastThenPow2Scale, {{"format", "f152"}, {"dtype", "f16"}}, {x, scale(1)})[0];
  EXPECT_EQ(wide.dtype(), DType::F16);
  EXPECT_THAT(wide.toDoubles(), ElementsAre(32, -2, std::exp2(-16)));
}

TEST(Float8Ops, SayWhatTheyNeed) {
  const HostTensor x = HostTensor::of<float>({1}, {1});
  const HostTensor bits = HostTensor::of<std::uint8_t>({1}, {1});
  const auto refusal = [](const ir::OpDef& def, std::vector<HostTensor> in, ir::Attrs attrs = {}) {
    return messageOf([&] { evaluate(def, attrs, in); });
  };
  EXPECT_THAT(refusal(kPow2ScaleThenCast, {x, scale(0)}, {{"format", "e4m3"}}),
              HasSubstr("f143 or f152"));
  EXPECT_THAT(refusal(kPow2ScaleThenCast, {bits, scale(0)}), HasSubstr("pow2_scale_then_cast"));
  EXPECT_THAT(refusal(kPow2ScaleThenCast, {x, x}), HasSubstr("one whole number"));
  EXPECT_THAT(refusal(kCastThenPow2Scale, {x, scale(0)}), HasSubstr("expected u8"));
  EXPECT_THAT(refusal(kCastThenPow2Scale, {bits, scale(0)}, {{"dtype", "i32"}}),
              HasSubstr("to a float type"));
  for (const std::int32_t power : {-33, 32}) {
    EXPECT_THAT(messageOf<DeviceError>([&] {
                  evaluate(kPow2ScaleThenCast, {}, {x, scale(power)});
                }),
                HasSubstr("from -32 to 31"));
  }
}

}  // namespace
}  // namespace sluice::ops
