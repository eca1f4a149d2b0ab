// Numbers of variable length and texts as bytes, for files that no person writes: traces and
// executables.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/base/error.h"

namespace sluice {

class ByteWriter {
 public:
  /// Seven bits a byte, the lowest first; the highest bit says that more follow.
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) {
      bytes_ += static_cast<char>(value | 0x80U);
    }
    bytes_ += static_cast<char>(value);
  }
  /// Small negative numbers are short, too.
  void number(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    number((bits << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0));
  }
  void number(std::int32_t value) { number(std::int64_t{value}); }
  void flag(bool value) { bytes_ += value ? '\1' : '\0'; }
  void text(std::string_view value) {
    number(std::uint64_t{value.size()});
    bytes_ += value;
  }
  /// The lowest byte first.
  void fixed(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      bytes_ += static_cast<char>(value >> (8U * static_cast<unsigned>(i)));
    }
  }
  void real(double value) { fixed(std::bit_cast<std::uint64_t>(value), 8); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Throws FileError, naming the file and the place, for whatever a ByteWriter does not write.
class ByteReader {
 public:
  /// `whose` begins the messages: "trace file 'run.slt'".
  ByteReader(std::string_view bytes, std::string whose) : bytes_(bytes), whose_(std::move(whose)) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(next());
      if (shift == 63 && byte > 1) {
        break;
      }
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift > 0) {
          break;  // the same number has a shorter form
        }
        return value;
      }
    }
    fail("a number is too long");
  }
  std::int64_t signedNumber() {
    const std::uint64_t bits = number();
    return static_cast<std::int64_t>(bits >> 1U) ^ -static_cast<std::int64_t>(bits & 1U);
  }
  /// From `least` to `most`.
  std::int64_t within(std::int64_t least, std::int64_t most, std::string_view what) {
    const std::int64_t value = signedNumber();
    if (value < least || value > most) {
      fail(fmt::format("{} is {}, expected {} to {}", what, value, least, most));
    }
    return value;
  }
  std::int32_t index(std::int64_t least, std::int64_t end, std::string_view what) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int32_t>(within(least, end - 1 < kMost ? end - 1 : kMost, what));
  }
  /// A number of things, each of which takes at least a byte.
  std::size_t count(std::string_view what) {
    const std::uint64_t value = number();
    if (value > bytes_.size() - at_) {
      fail(fmt::format("{} {} do not fit in the rest of the file", value, what));
    }
    return static_cast<std::size_t>(value);
  }
  bool flag() {
    const char byte = next();
    if (byte != 0 && byte != 1) {
      fail("a flag is neither 0 nor 1");
    }
    return byte == 1;
  }
  std::string text() { return std::string(view()); }
  /// A text that stays where it is.
  std::string_view view() { return take(count("characters"), "characters"); }
  std::uint64_t fixed(int bytes) {
    const std::string_view stored = take(static_cast<std::size_t>(bytes), "bytes of a number");
    std::uint64_t value = 0;
    for (std::size_t i = stored.size(); i-- > 0;) {
      value = value << 8U | static_cast<std::uint8_t>(stored[i]);
    }
    return value;
  }
  double real() { return std::bit_cast<double>(fixed(8)); }
  std::string_view take(std::size_t size, std::string_view what) {
    if (size > bytes_.size() - at_) {
      fail(fmt::format("{} {} do not fit in the rest of the file", size, what));
    }
    const std::string_view value = bytes_.substr(at_, size);
    at_ += size;
    return value;
  }
  void end() {
    if (at_ != bytes_.size()) {
      fail(fmt::format("{} bytes follow the end", bytes_.size() - at_));
    }
  }
  [[noreturn]] void fail(std::string_view what) const {
    raise<FileError>("{} is damaged at byte {}: {}", whose_, at_, what);
  }

 private:
  char next() {
    if (at_ == bytes_.size()) {
      fail("it ends in the middle");
    }
    return bytes_[at_++];
  }

  std::string_view bytes_;
  std::string whose_;
  std::size_t at_ = 0;
};

}  // namespace sluice
