#include <cmath>
#include <cstdint>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/tensor/host_tensor.h"
#include "tests/support/address_space.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

TEST(DType, NamesParseBack) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parseDType(name(dtype)), dtype);
  }
  EXPECT_FALSE(parseDType("float").has_value());
}

TEST(Float16, EveryBitPatternSurvivesAConversionToFloatAndBack) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    Float16 h;
    h.bits = static_cast<std::uint16_t>(i);
    const auto f = static_cast<float>(h);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(Float16(f))));
    } else {
      EXPECT_EQ(Float16(f).bits, h.bits);
    }
  }
}

TEST(Float16, RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(static_cast<float>(Float16(1.0F + 0x1p-11F)), 1.0F);                // tie to even
  EXPECT_EQ(static_cast<float>(Float16(1.0F + 3 * 0x1p-11F)), 1.0F + 0x1p-9F);  // tie to even
  EXPECT_EQ(static_cast<float>(Float16(65519.0F)), 65504.0F);
  EXPECT_TRUE(std::isinf(static_cast<float>(Float16(65520.0F))));
  EXPECT_EQ(static_cast<float>(Float16(0x1p-24F)), 0x1p-24F);
  EXPECT_EQ(static_cast<float>(Float16(0x1p-25F)), 0.0F);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(BFloat16(1.0F + 0x1p-8F)), 1.0F);
  EXPECT_EQ(static_cast<float>(BFloat16(1.0F + 3 * 0x1p-8F)), 1.0F + 0x1p-6F);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::nanf("")))));
}

TEST(Shape, NegativeExtentsAndOverflowAreRefused) {
  EXPECT_THROW(Shape({2, -1}), InvalidArgument);
  EXPECT_THROW(Shape({std::int64_t{1} << 40, std::int64_t{1} << 40}), InvalidArgument);
  EXPECT_THROW(Shape({0, std::int64_t{1} << 40, std::int64_t{1} << 40}), InvalidArgument);
  EXPECT_EQ(Shape({3, 0, 2}).elements(), 0);
  EXPECT_EQ(Shape{}.elements(), 1);
}

TEST(Shape, HasAtMost255Extents) {
  EXPECT_EQ(Shape(std::vector<std::int64_t>(255, 1)).elements(), 1);
  EXPECT_THAT(messageOf([] { Shape(std::vector<std::int64_t>(256, 1)); }),
              ::testing::HasSubstr("256 extents, expected at most 255"));
}

TEST(Shape, BroadcastFollowsNumPy) {
  EXPECT_EQ(broadcast(Shape{8, 1, 3}, Shape{5, 1}), (Shape{8, 5, 3}));
  EXPECT_EQ(broadcast(Shape{}, Shape{4}), Shape{4});
  EXPECT_EQ(broadcast(Shape{0, 1}, Shape{1, 3}), (Shape{0, 3}));
  try {
    broadcast(Shape{2, 3}, Shape{2, 4});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(error.message().find("[2, 3]"), std::string::npos);
  }
  EXPECT_THROW(normalizeAxis(3, 3), InvalidArgument);
  EXPECT_EQ(normalizeAxis(-1, 3), 2);
}

TEST(HostTensor, RowsAndReshapeShareStorageAndCloneDoesNot) {
  HostTensor t = HostTensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5});
  HostTensor row = t.rows(1, 1);
  EXPECT_EQ(row.at(0), 2.0);
  row.set(0, 9);
  EXPECT_EQ(t.at(2), 9.0);
  HostTensor copy = t.clone();
  copy.set(2, 1);
  EXPECT_EQ(t.at(2), 9.0);
  EXPECT_EQ(t.reshaped({6}).at(5), 5.0);
  EXPECT_THROW(t.reshaped({5}), InvalidArgument);
  EXPECT_THROW(t.rows(2, 2), InvalidArgument);
  EXPECT_THROW(static_cast<void>(t.data<double>()), InvalidArgument);
  EXPECT_THROW(HostTensor::of<float>({2}, {1.0F}), InvalidArgument);
}

TEST(HostTensor, ElementsThatAreNotThereAreTheCallersError) {
  HostTensor t = HostTensor::of<float>({2}, {0, 1});
  for (const std::int64_t i : {-1, 2}) {
    EXPECT_THROW(static_cast<void>(t.at(i)), InvalidArgument);
    EXPECT_THROW(t.set(i, 0), InvalidArgument);
  }
  EXPECT_THROW(static_cast<void>(HostTensor().at(0)), InvalidArgument);
  EXPECT_THAT(testing::messageOf([] {
                static_cast<void>(HostTensor(DType::F32, {0, 3}).at(0));
              }),
              ::testing::HasSubstr("f32[0, 3] has no elements, there is no element 0"));
  EXPECT_THROW(t.rows(1, INT64_MAX), InvalidArgument);
}

TEST(HostTensor, TooLargeForTheHostIsOutOfMemory) {
  for (const Shape& shape : {Shape{std::int64_t{1} << 40, 1 << 10}, Shape{INT64_MAX / 16}}) {
    try {
      const HostTensor tensor(DType::F64, shape);
      ADD_FAILURE() << shape.str() << " was made";
    } catch (const OutOfMemory& error) {
      EXPECT_NE(error.message().find(shape.str()), std::string::npos) << error.message();
    }
  }
  EXPECT_THROW(Shape({INT64_MAX, 2}), InvalidArgument);
}

TEST(HostTensor, ForWhichTheProcessGetsNoMemoryIsOutOfMemory) {
  if (!testing::kCanLimitAddressSpace) {
    GTEST_SKIP() << "the sanitizer needs address space";
  }
  EXPECT_EXIT(
      {
        testing::limitAddressSpace(std::size_t{64} << 20U);
        testing::exitByError<OutOfMemory>([] { HostTensor(DType::U8, Shape{256 << 20}); });
      },
      ::testing::ExitedWithCode(0),
      "");
}

TEST(HostTensor, CastTruncatesTowardZeroAndSaturates) {
  const HostTensor f = HostTensor::of<float>({4}, {-1.9F, 2.9F, 300.0F, std::nanf("")});
  EXPECT_EQ(cast(f, DType::I8).toDoubles(), (std::vector<double>{-1, 2, 127, 0}));
  EXPECT_EQ(cast(f, DType::Bool).toDoubles(), (std::vector<double>{1, 1, 1, 1}));
  const HostTensor big = HostTensor::of<std::int64_t>({1}, {(std::int64_t{1} << 62) + 1});
  EXPECT_EQ(cast(big, DType::U64).data<std::uint64_t>()[0], (std::uint64_t{1} << 62) + 1);
}

}  // namespace
}  // namespace sluice
