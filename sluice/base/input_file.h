// Files to be read. Every reader of Sluice opens its file here, so that what is no regular file is
// refused at once: a FIFO would block the run, a device may have no end.
//
// What is read is the file as it was when it was opened: bytes that are added later are not seen,
// and a file that became shorter is an error. Files that have content but no size, like those of
// /proc, are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>

namespace sluice {

/// A regular file that is open. Links are followed.
class InputFile {
 public:
  /// Throws FileError that says what is there if it is no regular file.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// In bytes, when it was opened.
  std::uint64_t size() const { return size_; }
  int descriptor() const { return descriptor_; }
  /// Fills `to` with the bytes from `offset` on; throws FileError if there are fewer.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  /// All of it; throws OutOfMemory for more than this machine has.
  std::string content() const;

 private:
  void requireSize() const;

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// The whole file; throws FileError, also when it is larger than `limit`, and OutOfMemory for more
/// than this machine has.
std::string readFile(const std::filesystem::path& path,
                     std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

/// A limit for files that people write: options, tuning tables.
inline constexpr std::uint64_t kTextFileLimit = std::uint64_t{64} << 20U;

}  // namespace sluice
