// The products of our own vector code, bit by bit against chains of fused multiply-adds.
#include "sluice/devices/cpu/kernels/vector_product.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/random_tensor.h"

namespace sluice::devices::cpu {
namespace {

std::vector<float> numbers(std::uint64_t seed, std::int64_t count) {
  const HostTensor tensor =
      sluice::testing::randomTensor(seed, {DType::F32, Shape{count}}, -1.0, 1.0);
  return {tensor.data<float>().begin(), tensor.data<float>().end()};
}

constexpr float kUntouched = 77.0F;

/// Every row and column count around the sizes of tiles and vectors.
std::vector<ProductExtents> extents() {
  std::vector<ProductExtents> result;
  for (const std::int64_t rows : {1, 2, 3, 5, 6, 7, 11, 12, 13, 25}) {
    for (const std::int64_t columns :
         {1, 7, 8, 15, 16, 17, 20, 24, 31, 33, 48, 63, 64, 65, 100, 130, 256, 270}) {
      result.push_back({rows, columns, 1 + rows % 4 * 5});
    }
  }
  return result;
}

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// Each element of the result by itself; `left(i, k)` and `right(k, j)` are the operands.
template <class Left, class Right>
void expectChains(const std::vector<float>& c,
                  std::int64_t stride,
                  const ProductExtents& e,
                  Left left,
                  Right right,
                  float start) {
  for (std::int64_t i = 0; i < e.rows; ++i) {
    for (std::int64_t j = 0; j < e.columns; ++j) {
      float sum = start;
      for (std::int64_t k = 0; k < e.k; ++k) {
        sum = std::fma(left(i, k), right(k, j), sum);
      }
      ASSERT_EQ(c[at(i * stride + j)], sum)
          << e.rows << "x" << e.columns << "x" << e.k << " at " << i << ", " << j;
    }
    for (std::int64_t j = e.columns; j < stride; ++j) {
      ASSERT_EQ(c[at(i * stride + j)], kUntouched) << "written beside the result";
    }
  }
}

TEST(VectorProduct, IsOneChainOfFusedMultiplyAddsPerElement) {
  if (!hasVectorProduct()) {
    GTEST_SKIP() << "no fused multiply-adds here";
  }
  for (const ProductExtents& e : extents()) {
    const auto a = numbers(1, e.rows * e.k);
    const auto b = numbers(2, e.k * e.columns);
    const std::int64_t stride = e.columns + 3;
    std::vector<float> c(at(e.rows * stride), kUntouched);
    const auto right = [&](std::int64_t k, std::int64_t j) { return b[at(k * e.columns + j)]; };
    multiplyRows({a.data(), e.k, 1}, {b.data(), e.columns, e.columns, 0}, {c.data(), stride}, e);
    expectChains(
        c, stride, e, [&](auto i, auto k) { return a[at(i * e.k + k)]; }, right, 0.0F);
    multiplyRows({a.data(), 1, e.rows}, {b.data(), e.columns, e.columns, 0}, {c.data(), stride}, e);
    expectChains(
        c, stride, e, [&](auto i, auto k) { return a[at(k * e.rows + i)]; }, right, 0.0F);
  }
}

TEST(VectorProduct, TakesTheRightOperandInPanels) {
  if (!hasVectorProduct()) {
    GTEST_SKIP() << "no fused multiply-adds here";
  }
  constexpr std::int64_t kWidth = 32;
  for (const ProductExtents& e : extents()) {
    const auto a = numbers(1, e.rows * e.k);
    const std::int64_t panels = (e.columns + kWidth - 1) / kWidth;
    const auto b = numbers(2, panels * kWidth * e.k);
    std::vector<float> c(at(e.rows * e.columns), kUntouched);
    multiplyRows(
        {a.data(), e.k, 1}, {b.data(), kWidth, kWidth, kWidth * e.k}, {c.data(), e.columns}, e);
    expectChains(
        c,
        e.columns,
        e,
        [&](auto i, auto k) { return a[at(i * e.k + k)]; },
        [&](auto k, auto j) { return b[at(j / kWidth * kWidth * e.k + k * kWidth + j % kWidth)]; },
        0.0F);
  }
}

TEST(VectorProduct, GoesOnWithTheChainsOfAResult) {
  if (!hasVectorProduct()) {
    GTEST_SKIP() << "no fused multiply-adds here";
  }
  for (const ProductExtents& e : extents()) {
    const auto a = numbers(1, e.rows * e.k);
    const auto b = numbers(2, e.k * e.columns);
    const std::int64_t stride = e.columns + 3;
    const std::int64_t half = e.k / 2;
    std::vector<float> c(at(e.rows * stride), kUntouched);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      std::fill_n(c.begin() + i * stride, e.columns, 0.5F);
    }
    addRows({a.data(), e.k, 1},
            {b.data(), e.columns, e.columns, 0},
            {c.data(), stride},
            {e.rows, e.columns, half});
    addRows({a.data() + half, e.k, 1},
            {b.data() + half * e.columns, e.columns, e.columns, 0},
            {c.data(), stride},
            {e.rows, e.columns, e.k - half});
    expectChains(
        c,
        stride,
        e,
        [&](auto i, auto k) { return a[at(i * e.k + k)]; },
        [&](auto k, auto j) { return b[at(k * e.columns + j)]; },
        0.5F);
  }
}

TEST(VectorProduct, CarriesChainsThroughTheParts) {
  if (!hasVectorProduct()) {
    GTEST_SKIP() << "no fused multiply-adds here";
  }
  for (const ProductExtents& e : extents()) {
    const std::int64_t last = e.k + 2;
    const auto a = numbers(1, e.rows * (e.k + last));
    const auto b = numbers(2, (e.k + last) * e.columns);
    // The second half of both operands first.
    const std::vector<ProductPart> parts = {{e.k, e.k * e.columns, last}, {0, 0, e.k}};
    std::vector<float> c(at(e.rows * e.columns), kUntouched);
    multiplyParts({{a.data(), e.k + last, 1},
                   {b.data(), e.columns, e.columns, 0},
                   {c.data(), e.columns},
                   {e.rows, e.columns},
                   parts});
    const auto term = [&](std::int64_t k) { return k < last ? e.k + k : k - last; };
    expectChains(
        c,
        e.columns,
        {e.rows, e.columns, e.k + last},
        [&](auto i, auto k) { return a[at(i * (e.k + last) + term(k))]; },
        [&](auto k, auto j) { return b[at(term(k) * e.columns + j)]; },
        0.0F);
    multiplyParts({{a.data(), e.k, 1},
                   {b.data(), e.columns, e.columns, 0},
                   {c.data(), e.columns},
                   {e.rows, e.columns},
                   {}});
    EXPECT_EQ(c, std::vector<float>(c.size(), 0.0F)) << "no part";
  }
}

TEST(VectorProduct, FollowEachOther) {
  if (!hasVectorProduct()) {
    GTEST_SKIP() << "no fused multiply-adds here";
  }
  constexpr std::int64_t kCount = 3;
  for (const ProductExtents& e : extents()) {
    // Rows with gaps between them, and products with more of them.
    const std::int64_t rowStride = 2 * e.k;
    const std::int64_t leftStep = e.rows * rowStride + 5;
    const std::int64_t resultStep = e.rows * e.columns + 3;
    const auto a = numbers(1, kCount * leftStep);
    const auto b = numbers(2, e.k * e.columns);
    const ProductPart whole{0, 0, e.k};
    std::vector<float> c(at(kCount * resultStep), kUntouched);
    multiplyParts({.left = {a.data(), rowStride, 1},
                   .right = {b.data(), e.columns, e.columns, 0},
                   .result = {c.data(), e.columns},
                   .extents = {e.rows, e.columns},
                   .parts = {&whole, 1},
                   .count = kCount,
                   .leftStep = leftStep,
                   .resultStep = resultStep});
    for (std::int64_t n = 0; n < kCount; ++n) {
      const auto begin = c.begin() + n * resultStep;
      expectChains(
          std::vector<float>(begin, begin + e.rows * e.columns),
          e.columns,
          e,
          [&](auto i, auto k) { return a[at(n * leftStep + i * rowStride + k)]; },
          [&](auto k, auto j) { return b[at(k * e.columns + j)]; },
          0.0F);
      EXPECT_EQ(*(begin + e.rows * e.columns), kUntouched);
    }
  }
}

TEST(VectorProduct, AddsOuterProductsInTheOrderOfTheTerms) {
  if (!hasVectorProduct()) {
    GTEST_SKIP() << "no fused multiply-adds here";
  }
  for (const ProductExtents& e : extents()) {
    const auto left = numbers(1, e.rows * e.k);
    const auto right = numbers(2, e.columns * e.k);
    std::vector<TermOffsets> terms;
    for (std::int64_t k = 0; k < e.k; ++k) {
      const std::int64_t other = k * 7 % e.k;  // not in the order of memory
      terms.push_back({static_cast<std::int32_t>(other * e.rows),
                       static_cast<std::int32_t>((e.k - 1 - k) * e.columns)});
    }
    const std::int64_t stride = e.columns + 1;
    std::vector<float> c(at(e.rows * stride), kUntouched);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      std::fill_n(c.begin() + i * stride, e.columns, 0.5F);
    }
    const TermGroup all{0, e.rows, terms};
    const OuterProducts products{
        .left = left.data(), .right = right.data(), .groups = {&all, 1}, .next = right};
    sumOuterProducts(products, {c.data(), stride}, {e.rows, e.columns});
    expectChains(
        c,
        stride,
        e,
        [&](auto i, auto k) { return left[at(terms[at(k)].left + i)]; },
        [&](auto k, auto j) { return right[at(terms[at(k)].right + j)]; },
        0.5F);
  }
}

TEST(VectorProduct, SumsOuterProductsThatOnlySomeRowsHave) {
  if (!hasVectorProduct()) {
    GTEST_SKIP() << "no fused multiply-adds here";
  }
  for (const ProductExtents& e : extents()) {
    // Terms of a middle, an upper and a lower group of rows.
    const auto right = numbers(2, e.columns * e.k);
    const auto left = numbers(1, e.rows);
    std::vector<TermGroup> groups;
    std::vector<TermOffsets> terms;
    for (std::int64_t k = 0; k < e.k; ++k) {
      terms.push_back({0, static_cast<std::int32_t>(k * e.columns)});
    }
    const std::int64_t low = e.rows / 4;
    const std::int64_t high = e.rows - e.rows / 3;
    const std::size_t third = terms.size() / 3;
    const std::span<const TermOffsets> list = terms;
    groups.push_back({low, high, list.first(third)});
    groups.push_back({0, high, list.subspan(third, third)});
    groups.push_back({low, e.rows, list.subspan(2 * third)});
    std::vector<float> c(at(e.rows * e.columns), kUntouched);
    sumOuterProducts({.left = left.data(), .right = right.data(), .groups = groups, .adds = false},
                     {c.data(), e.columns},
                     {e.rows, e.columns});
    for (std::int64_t i = 0; i < e.rows; ++i) {
      for (std::int64_t j = 0; j < e.columns; ++j) {
        float sum = 0.0F;
        for (const TermGroup& group : groups) {
          for (const TermOffsets& term : group.terms) {
            if (i >= group.firstRow && i < group.endRow) {
              sum = std::fma(left[at(i)], right[at(term.right + j)], sum);
            }
          }
        }
        ASSERT_EQ(c[at(i * e.columns + j)], sum) << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::devices::cpu
