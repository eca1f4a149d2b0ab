// Opens files for reading. Every reader in Sluice opens its file here, so that anything but a
// regular file is refused at once: a FIFO would block the run, and a device may have no end.
//
// A reader sees the file as it was when it was opened: bytes that are added later are not seen, and
// a file that became shorter is an error. Files with content but no size, like those of /proc, are
// refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "sluice/base/error.h"

namespace sluice {

/// The system could not open or read a file: what it holds is not known. It may work later.
class UnreadableFile : public FileError {
 public:
  explicit UnreadableFile(std::string message) : FileError(std::move(message)) {}
};

/// An open regular file. Links are followed.
class InputFile {
 public:
  /// Throws FileError, which says what is there, unless the path leads to a regular file, and
  /// UnreadableFile if that cannot be opened.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// The size in bytes at the time of opening.
  std::uint64_t size() const { return size_; }
  int descriptor() const { return descriptor_; }
  /// Fills `to` with the bytes starting at `offset`; throws FileError if there are too few.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  /// The whole content; throws OutOfMemory if it is larger than the memory of this machine.
  std::string content() const;

 private:
  void requireSize() const;

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Reads the whole file. Throws FileError, also if the file is larger than `limit`, and OutOfMemory
/// if it is larger than the memory of this machine.
std::string readFile(const std::filesystem::path& path,
                     std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

/// The size limit for files written by people: options, tuning tables.
inline constexpr std::uint64_t kTextFileLimit = std::uint64_t{64} << 20U;

}  // namespace sluice
