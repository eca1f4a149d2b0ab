// Writes a file whole or not at all. The bytes go to a temporary file in the same folder, which is
// synced and renamed, and then the folder is synced. A reader of the final name never sees half a
// file, and a committed file survives a power loss. Everything in Sluice that writes a file for a
// user writes it here.
//
// Only regular files are replaced: a device, a FIFO, a socket or a folder is refused. A symbolic
// link stays, and its target is replaced or created. An existing file keeps its mode.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace sluice {

/// Creates or replaces the file; its folder must exist. Throws FileError and then leaves an
/// existing file unchanged.
void writeFileAtomically(const std::filesystem::path& path, std::string_view text);
/// Same as above; writes the parts one after the other.
void writeFileAtomically(const std::filesystem::path& path,
                         std::span<const std::string_view> parts);

/// Returns the place that output to `path` goes to: the path with its symbolic links followed.
/// Throws FileError if anything but a regular file exists there.
std::filesystem::path outputTarget(const std::filesystem::path& path);

/// Throws FileError if output to `path` could not be written now: for outputTarget's reasons, or
/// because its folder is missing or closed. For commands that work long before they write.
void requireWritable(const std::filesystem::path& path);

/// Removes temporary files that killed processes left in the folder, if the final name begins with
/// `prefix`. A file that is still being written is locked and stays.
void removeAbandonedParts(const std::filesystem::path& folder, std::string_view prefix);

/// A file that is being written under its temporary name.
class PartialFile {
 public:
  /// Unique: only this writer knows the name; the file is removed unless `commit` was called.
  /// Watched: the final name with ".part" added, so that people can look at the file meanwhile; it
  /// always stays, and a second writer of it gets a FileError.
  enum class Name : std::uint8_t { Unique, Watched };

  explicit PartialFile(const std::filesystem::path& path, Name name = Name::Unique);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(std::string_view text);
  /// Renames the file to its final name. It stays open: later writes are appended to it.
  void commit();
  bool committed() const { return committed_; }

 private:
  void openUnique(unsigned mode);
  void openWatched(unsigned mode);
  bool lockIsOurs() const;
  void syncFolder() const;
  [[noreturn]] void fail(std::string_view what) const;

  std::string final_;
  std::string partial_;
  int descriptor_ = -1;
  bool watched_ = false;
  bool committed_ = false;
};

}  // namespace sluice

#pragma GCC visibility pop
