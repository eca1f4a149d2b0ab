// Philox4x32-10, the counter-based random generator of Salmon et al. (SC'11). It maps each (key,
// counter) to four 32-bit words and has no state, so any element of any stream can be computed
// alone and in any order (rule R6).
#pragma once

#include <array>
#include <cstdint>

namespace sluice {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ULL * counter[0];
    const std::uint64_t p1 = 0xCD9E8D57ULL * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0,
               static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1,
               static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}

/// The random stream of one random op in one micro-batch. Element i uses word i % 4 of block i / 4.
struct RandomStream {
  std::uint64_t key = 0;
  std::uint32_t ordinal = 0;
  std::uint32_t microBatch = 0;

  constexpr PhiloxBlock block(std::uint64_t index) const {
    return philox(key,
                  {static_cast<std::uint32_t>(index),
                   static_cast<std::uint32_t>(index >> 32),
                   ordinal,
                   microBatch});
  }
  constexpr std::uint32_t word(std::uint64_t element) const {
    return block(element / 4)[element % 4];
  }
};

/// Uniform in [0, 1), from 24 random bits; exact in float.
constexpr float uniform01(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24F;
}

/// Two standard normals from two words (Box-Muller), computed in double.
std::array<double, 2> normalPair(std::uint32_t first, std::uint32_t second);

/// Element i of a stream of standard normals: words 2j and 2j + 1 give elements 2j and 2j + 1.
double standardNormal(const RandomStream& stream, std::uint64_t element);

}  // namespace sluice
