#include "sluice/base/quick_sum.h"

#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace sluice {
namespace {

std::uint64_t sumOf(std::string_view text) {
  return QuickSum().add(std::as_bytes(std::span(text))).digest();
}

/// The same numbers by the definition: word i goes to sum i mod 4, zeros fill the last block.
std::uint64_t plainSumOf(std::string text) {
  const auto step = [](std::uint64_t sum, std::uint64_t word) {
    const std::uint64_t joined = sum ^ (word * 0xd6e8feb86659fd93ULL);
    return (joined << 29U | joined >> 35U) * 0x9e3779b97f4a7c15ULL;
  };
  std::uint64_t sum = text.size();
  text.resize(text.size() / 32 * 32 + 32, '\0');
  std::uint64_t lanes[] = {1, 2, 3, 4};
  for (std::size_t i = 0; i < text.size() / 8; ++i) {
    std::uint64_t word = 0;
    for (std::size_t b = 8; b-- > 0;) {
      word = word << 8U | static_cast<std::uint8_t>(text[8 * i + b]);
    }
    lanes[i % 4] = step(lanes[i % 4], word);
  }
  for (const std::uint64_t lane : lanes) {
    sum = step(sum, lane);
  }
  return sum;
}

TEST(QuickSum, IsTheSameHoweverTheBytesArrive) {
  std::mt19937 random(5);
  for (std::size_t size = 0; size < 200; ++size) {
    std::string text(size, '\0');
    for (char& c : text) {
      c = static_cast<char>(random());
    }
    EXPECT_EQ(sumOf(text), plainSumOf(text)) << size;
    QuickSum sum;
    for (std::size_t at = 0; at < size;) {
      const std::size_t piece = std::min<std::size_t>(random() % 70, size - at);
      sum.add(std::as_bytes(std::span(text)).subspan(at, piece));
      at += piece;
    }
    EXPECT_EQ(sum.digest(), plainSumOf(text)) << size;
  }
}

TEST(QuickSum, TellsEveryChangedBitAndEveryLength) {
  std::string text(100, 'a');
  std::set<std::uint64_t> sums = {sumOf(text)};
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1U << bit % 8));
    EXPECT_TRUE(sums.insert(sumOf(text)).second) << bit;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1U << bit % 8));
  }
  // Nor do two changes cancel: of one in word 1 and one in word 5, which the same sum takes.
  for (std::size_t first = 64; first < 128; ++first) {
    for (std::size_t second = 320; second < 384; ++second) {
      for (const std::size_t bit : {first, second}) {
        text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1U << bit % 8));
      }
      EXPECT_TRUE(sums.insert(sumOf(text)).second) << first << ", " << second;
      text = std::string(100, 'a');
    }
  }
  for (std::size_t size = 0; size < 100; ++size) {
    EXPECT_TRUE(sums.insert(sumOf(std::string(size, '\0'))).second) << size;
  }
}

}  // namespace
}  // namespace sluice
