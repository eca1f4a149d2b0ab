// A small, stable 64-bit hash for structure: graphs, programs, tensors. The same input gives the
// same digest on every machine and in every version, because digests are stored in files. The hash
// is not cryptographic.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace sluice {

class Hasher {
 public:
  Hasher& add(std::uint64_t value) {
    state_ = mix(state_ ^ mix(value + 0x9e3779b97f4a7c15ULL));
    return *this;
  }
  Hasher& add(std::int64_t value) { return add(static_cast<std::uint64_t>(value)); }
  Hasher& add(int value) { return add(static_cast<std::int64_t>(value)); }
  Hasher& add(bool value) { return add(static_cast<std::int64_t>(value ? 1 : 0)); }
  Hasher& add(double value) { return add(std::bit_cast<std::uint64_t>(value)); }
  Hasher& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Hasher& add(const char* text) { return add(std::string_view(text)); }

  Hasher& add(std::span<const std::byte> bytes) {
    add(static_cast<std::uint64_t>(bytes.size()));
    while (bytes.size() >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      add(word);
      bytes = bytes.subspan(8);
    }
    if (!bytes.empty()) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), bytes.size());
      add(word);
    }
    return *this;
  }

  std::uint64_t digest() const { return mix(state_); }

 private:
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

  std::uint64_t state_ = 0x5351554943453031ULL;
};

}  // namespace sluice
