// Files that are there whole or not at all: written under a temporary name beside their place,
// synced, then renamed, and the folder synced. Whoever reads the final name never sees half a file,
// and a file that was written stays after a loss of power. Everything in Sluice that writes a file
// for a user does it here.
//
// Only regular files are replaced: a device, a FIFO, a socket or a folder is refused. A symbolic
// link stays and its target is replaced (or made). An existing file keeps its mode.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// Replaces or makes the file; its folder must exist. Throws FileError, and then a file that was
/// there is as before.
void writeFileAtomically(const std::filesystem::path& path, std::string_view text);
/// The same of several parts, one after the other.
void writeFileAtomically(const std::filesystem::path& path,
                         std::span<const std::string_view> parts);

/// The place that output to `path` goes to: the path with its symbolic links followed. Throws
/// FileError if something is there that is no regular file.
std::filesystem::path outputTarget(const std::filesystem::path& path);

/// Removes the temporary files in the folder that processes which were killed left there, of final
/// names that begin with `prefix`. A file that is being written is locked and stays.
void removeAbandonedParts(const std::filesystem::path& folder, std::string_view prefix);

/// A file while it is written under its temporary name.
class PartialFile {
 public:
  /// Unique: a name of this writer alone; the file is removed unless `commit` came. Watched: the
  /// final name and ".part", which people may look at meanwhile; it stays in any case, and a second
  /// writer of it gets a FileError.
  enum class Name : std::uint8_t { Unique, Watched };

  explicit PartialFile(const std::filesystem::path& path, Name name = Name::Unique);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(std::string_view text);
  /// Gives the file its name. It stays open: what is written later is added to it.
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
