// FileCache: a folder of results that take long to make, such as compiled programs and machine code
// for GPUs, each under what it was made from. Any number of processes may use one folder at a time.
//
// A file holds the whole key and the result. A hit compares the keys byte by byte, so there are no
// wrong ones. A damaged file is a miss: it is removed, and the log says so. A file that the system
// cannot read at the moment is a miss, too, but stays. Files are renamed into place, and the size
// of the folder is kept under a lock. Whatever goes wrong with the folder, its user only has to
// make the result again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/section_file.h"

namespace sluice {

/// What an entry of a cache holds; the number of its section.
enum class CacheContent : std::uint32_t { Program = 2, Code = 3 };

class FileCache {
 public:
  FileCache(std::filesystem::path folder, std::uint64_t maxBytes);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path pathOf(std::string_view key) const;

  /// Gives the result with this key to `take` and says whether there was one. If `take` throws an
  /// Error, the file is removed; it is then no hit. OutOfMemory goes to the caller.
  using Take = std::function<void(const std::string& result)>;
  bool find(std::string_view key, CacheContent content, const Take& take) const;
  /// Adds a result, and removes the files that were used least recently until all fit. Only logs
  /// what goes wrong.
  void store(std::string_view key, CacheContent content, std::string_view result) const;
  /// Notes that a file is used now.
  static void touch(const std::filesystem::path& path);

  /// The result of an entry, if it has this key and content. Throws FileError.
  static std::optional<std::string> resultOf(const SectionFile& entry,
                                             std::string_view key,
                                             CacheContent content);
  /// How the bytes of an entry begin.
  static SectionFile::Expected expected();

  struct File {
    std::filesystem::path path;
    std::uint64_t bytes = 0;
    std::filesystem::file_time_type used;
    std::string kept = {};    ///< why verify could not remove it; empty: it could
    std::string unread = {};  ///< why verify could not check it; empty: it is damaged
  };
  /// All files, that which was used most recently first. Throws FileError.
  std::vector<File> files() const;
  std::uint64_t bytes() const;
  /// Removes damaged files and returns them: those that are not whole, or whose program `check`
  /// refuses with an Error. Also returns files that could not be checked, because the system cannot
  /// read them, memory is short or `check` throws UnreadableFile; they stay.
  std::vector<File> verify(const Take& check) const;
  /// Removes all files and returns how many there were. Throws FileError if some could not be
  /// removed.
  std::size_t clear() const;

 private:
  void makeRoom(std::uint64_t bytes) const;

  std::filesystem::path folder_;
  std::uint64_t maxBytes_;
};

}  // namespace sluice
