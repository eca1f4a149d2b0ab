// Maps files into memory. Errors name the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::data {

/// A read-only mapping of a file. Copies of the object share the mapping, which lives as long as
/// the last of them. A file must not shrink while it is mapped.
class MappedFile {
 public:
  /// Throws FileError.
  explicit MappedFile(const std::string& path);
  const std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }

 private:
  std::shared_ptr<const std::byte> memory_;
  std::size_t size_ = 0;
};

/// Reads a number of `count` bytes, least significant first. The bytes must exist; this is not
/// checked.
std::uint64_t littleEndian(std::string_view bytes, std::size_t offset, std::size_t count);

}  // namespace sluice::data
