#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/ops/interpreter.h"
#include "sluice/ops/ops.h"
#include "sluice/ops/random.h"
#include "tests/support/message_of.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;
using testing::messageOf;

/// The largest number of T that is not above `value`, which is positive.
template <class T>
float below(float value) {
  T low(value);
  if (static_cast<float>(low) > value) {
    --low.bits;
  }
  return static_cast<float>(low);
}

template <class T>
float above(float value) {
  T high(value);
  if (static_cast<float>(high) < value) {
    ++high.bits;
  }
  return static_cast<float>(high);
}

/// Between its neighbours in T a value goes up for exactly the words below the share that it is
/// away from the lower one.
template <class T>
void expectShares(float value) {
  SCOPED_TRACE(value);
  const double low = below<T>(value);
  const double high = above<T>(value);
  const double share = high == low ? 0.0 : (static_cast<double>(value) - low) / (high - low);
  const double words = std::ceil(share * 0x1p32);
  const auto rounded = [&](double word) {
    return static_cast<float>(roundStochastically<T>(value, static_cast<std::uint32_t>(word)));
  };
  if (words > 0) {
    EXPECT_EQ(rounded(words - 1), high);
    EXPECT_EQ(rounded(0), high);
  }
  EXPECT_EQ(rounded(words), low);
  EXPECT_EQ(rounded(0x1p32 - 1), low);
  EXPECT_EQ(static_cast<float>(roundStochastically<T>(-value, static_cast<std::uint32_t>(words))),
            -low);
}

TEST(StochasticCast, GoesUpInProportionToTheDistance) {
  for (const float value : {1.0F + 0x1p-11F,
                            1.0F / 3,
                            0.1F,
                            1234.567F,
                            65503.0F,
                            0x1p-14F + 0x1p-30F,  // just above the smallest normal float16
                            0x1p-14F - 0x1p-30F,  // and below it: its upper neighbour is normal
                            1e-5F,
                            3e-8F,
                            0x1p-24F}) {
    expectShares<Float16>(value);
    expectShares<BFloat16>(value);
  }
  expectShares<BFloat16>(0x1p-130F + 0x1p-149F);
  expectShares<BFloat16>(1e38F);
  // So small that a draw of 2^32 words sees it as 2^-9.
  EXPECT_EQ(roundStochastically<Float16>(0x1p-33F, (1U << 23) - 1).bits, 1);
  EXPECT_EQ(roundStochastically<Float16>(0x1p-33F, 1U << 23).bits, 0);
  EXPECT_EQ(roundStochastically<Float16>(1e-40F, 1).bits, 0);
}

TEST(StochasticCast, LeavesEveryNumberOfTheTypeAsItIs) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    BFloat16 brain;
    brain.bits = static_cast<std::uint16_t>(bits);
    for (const std::uint32_t word : {0U, 0xFFFFFFFFU}) {
      if (!std::isnan(static_cast<float>(half))) {
        ASSERT_EQ(roundStochastically<Float16>(static_cast<float>(half), word), half) << bits;
      }
      if (!std::isnan(static_cast<float>(brain))) {
        ASSERT_EQ(roundStochastically<BFloat16>(static_cast<float>(brain), word), brain) << bits;
      }
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(static_cast<float>(roundStochastically<Float16>(nan, 7))));
  // Beyond the largest number there is nothing to choose from.
  EXPECT_EQ(static_cast<float>(roundStochastically<Float16>(65519.0F, 0)), 65504.0F);
  EXPECT_TRUE(std::isinf(static_cast<float>(roundStochastically<Float16>(65520.0F, 0xFFFFFFFFU))));
}

struct Cast {
  explicit Cast(const HostTensor& x, std::uint64_t seed = 3, double count = 1) {
    ir::Graph graph;
    GraphBuilder b(graph);
    const Value y = stochasticCast(
        b, b.input("x", x.type()), b.input("count", {DType::F32, Shape{}}), DType::F16);
    graph.addOutput("y", y);
    TensorMap state;
    result = evaluate(graph,
                      {{"x", x}, {"count", HostTensor::scalar(static_cast<float>(count))}},
                      state,
                      {.seed = seed})
                 .at("y");
  }
  HostTensor result;
};

TEST(StochasticCast, IsRightOnAverage) {
  constexpr std::int64_t kCount = 1 << 16;
  const HostTensor x = HostTensor::full({DType::F32, Shape{kCount}}, 1.0 + 0.3 * 0x1p-10);
  double sum = 0;
  for (const double value : Cast(x).result.toDoubles()) {
    EXPECT_TRUE(value == 1.0 || value == 1.0 + 0x1p-10);
    sum += (value - 1.0) * 0x1p10;
  }
  // The mean of kCount draws of probability 0.3 deviates by sqrt(0.21 / kCount) = 0.0018.
  EXPECT_NEAR(sum / kCount, 0.3, 0.008);
}

TEST(StochasticCast, DependsOnSeedCountAndElementOnly) {
  const HostTensor x = HostTensor::full({DType::F32, Shape{64}}, 0.1);
  EXPECT_TRUE(Cast(x).result.sameBits(Cast(x).result));
  EXPECT_FALSE(Cast(x, 3, 1).result.sameBits(Cast(x, 4, 1).result));
  EXPECT_FALSE(Cast(x, 3, 1).result.sameBits(Cast(x, 3, 2).result));
  EXPECT_TRUE(Cast(x, 3, -1).result.sameBits(Cast(x, 3, 0).result)) << "no count";
}

TEST(StochasticCast, RefusesOtherTypes) {
  ir::Graph graph;
  GraphBuilder b(graph);
  const Value x = b.input("x", {DType::F32, Shape{2}});
  const Value half = b.input("half", {DType::F16, Shape{2}});
  const Value count = b.scalar(DType::F32, 1);
  EXPECT_THAT(messageOf([&] { stochasticCast(b, half, count, DType::F16); }), HasSubstr("f16[2]"));
  EXPECT_THAT(messageOf([&] { stochasticCast(b, x, count, DType::F64); }), HasSubstr("to f64"));
  EXPECT_THAT(messageOf([&] { stochasticCast(b, x, x, DType::F16); }), HasSubstr("float scalar"));
}

}  // namespace
}  // namespace sluice::ops
