// QuickSum: a checksum of many bytes that takes less time than copying them. Like the digests of
// base/hash.h it is stored in files, so it stays the same on every machine and in every version. It
// finds damage, not forgery.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sluice {

/// Four sums side by side, because each step waits for the one before. A step is a bijection of the
/// sum and of the word, so a change within one word is always found. The word has a factor of its
/// own: otherwise two changed bits, in words of the same sum, could cancel.
class QuickSum {
 public:
  /// Several calls give the sum of their bytes one after the other.
  QuickSum& add(std::span<const std::byte> bytes) {
    total_ += bytes.size();
    if (filled_ > 0) {
      const std::size_t taken = std::min(bytes.size(), kBlock - filled_);
      std::memcpy(block_.data() + filled_, bytes.data(), taken);
      filled_ += taken;
      bytes = bytes.subspan(taken);
      if (filled_ < kBlock) {
        return *this;
      }
      addBlocks(block_.data(), kBlock);
    }
    const std::size_t whole = bytes.size() / kBlock * kBlock;
    addBlocks(bytes.data(), whole);
    filled_ = bytes.size() - whole;
    if (filled_ > 0) {
      std::memcpy(block_.data(), bytes.data() + whole, filled_);
    }
    return *this;
  }

  std::uint64_t digest() const {
    Words last{};
    std::memcpy(last.data(), block_.data(), filled_);
    std::uint64_t sum = total_;
    for (std::size_t i = 0; i < kLanes; ++i) {
      sum = step(sum, step(sums_[i], last[i]));
    }
    return sum;
  }

 private:
  static constexpr std::size_t kLanes = 4;
  using Words = std::array<std::uint64_t, kLanes>;
  static constexpr std::size_t kBlock = sizeof(Words);

  static std::uint64_t step(std::uint64_t sum, std::uint64_t word) {
    return std::rotl(sum ^ (word * 0xd6e8feb86659fd93ULL), 29) * 0x9e3779b97f4a7c15ULL;
  }

  void addBlocks(const std::byte* data, std::size_t bytes) {
    Words sums = sums_;
    Words words{};
    for (const std::byte* const end = data + bytes; data != end; data += kBlock) {
      std::memcpy(words.data(), data, kBlock);
      for (std::size_t i = 0; i < kLanes; ++i) {
        sums[i] = step(sums[i], words[i]);
      }
    }
    sums_ = sums;
  }

  Words sums_ = {1, 2, 3, 4};
  std::array<std::byte, kBlock> block_{};  // the bytes that do not fill a block yet
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace sluice
