#include "sluice/base/file_cache.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/input_file.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCacheMagic = "SLUICEca";
constexpr FormatVersion kCacheVersion{1, 0};
constexpr std::string_view kCacheSuffix = ".slc";
constexpr std::uint32_t kKeySection = 1;

/// Held while the size of the folder is kept; other processes wait.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(::open((folder / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
    while (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;  // below 0: the folder cannot be locked, and the rest says why
};

/// Why an entry is still there; empty: it is not, whoever removed it.
std::string removeEntry(const fs::path& path) {
  std::error_code failed;
  fs::remove(path, failed);
  return failed ? failed.message() : "";
}

/// Removes a damaged entry and returns why it is still there; none: another process has removed it.
std::optional<std::string> removeDamaged(const fs::path& path, const Error& error) {
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    return std::nullopt;
  }
  std::string kept = removeEntry(path);
  log::warn("cache",
            "'{}' is {}: {}",
            path.string(),
            kept.empty() ? "removed" : fmt::format("not used, and cannot be removed ({})", kept),
            error.message());
  return kept;
}

}  // namespace

FileCache::FileCache(fs::path folder, std::uint64_t maxBytes)
    : folder_(std::move(folder)), maxBytes_(maxBytes) {}

SectionFile::Expected FileCache::expected() {
  return {.magic = kCacheMagic, .major = kCacheVersion.major, .what = "entry of the cache"};
}

fs::path FileCache::pathOf(std::string_view key) const {
  return folder_ / fmt::format("{:016x}{:016x}{}",
                               Hasher().add(key).digest(),
                               Hasher().add(1).add(key).digest(),
                               kCacheSuffix);
}

std::optional<std::string> FileCache::resultOf(const SectionFile& entry,
                                               std::string_view key,
                                               CacheContent content) {
  if (entry.unpacked(entry.one(kKeySection, "a key")) != key) {
    return std::nullopt;
  }
  return entry.unpacked(entry.one(static_cast<std::uint32_t>(content), "a result"));
}

bool FileCache::find(std::string_view key, CacheContent content, const Take& take) const {
  const fs::path path = pathOf(key);
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    return false;
  }
  try {
    const std::optional<std::string> result = resultOf(SectionFile(path, expected()), key, content);
    if (!result) {
      return false;
    }
    take(*result);
    touch(path);
    return true;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const UnreadableFile& error) {
    log::warn("cache", "not used now: {}", error.message());
    return false;
  } catch (const Error& error) {
    removeDamaged(path, error);
    return false;
  }
}

void FileCache::touch(const fs::path& path) {
  std::error_code gone;
  fs::last_write_time(path, fs::file_time_type::clock::now(), gone);
}

void FileCache::store(std::string_view key, CacheContent content, std::string_view result) const {
  try {
    SectionWriter writer(kCacheMagic, kCacheVersion);
    writer.add(kKeySection, key);
    writer.add(static_cast<std::uint32_t>(content), result);
    const std::string bytes = writer.bytes();
    if (bytes.size() > maxBytes_) {
      log::info("cache", "a result of {} bytes does not fit", bytes.size());
      return;
    }
    fs::create_directories(folder_);
    const FolderLock lock(folder_);
    makeRoom(bytes.size());
    writeFileAtomically(pathOf(key), bytes);
  } catch (const Error& error) {
    log::warn("cache", "a result is not kept: {}", error.message());
  } catch (const fs::filesystem_error& error) {
    log::warn("cache", "a result is not kept: {}", error.what());
  }
}

void FileCache::makeRoom(std::uint64_t bytes) const {
  removeAbandonedParts(folder_, "");
  std::uint64_t sum = bytes;
  for (const File& file : files()) {
    sum += file.bytes;
    if (sum > maxBytes_ && removeEntry(file.path).empty()) {
      sum -= file.bytes;
    }
  }
}

std::vector<FileCache::File> FileCache::files() const {
  std::vector<File> all;
  std::error_code failed;
  for (fs::directory_iterator it(folder_, failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code gone;
    if (it->path().extension() != kCacheSuffix || !it->is_regular_file(gone)) {
      continue;
    }
    File file{it->path(), it->file_size(gone), it->last_write_time(gone)};
    if (!gone) {
      all.push_back(std::move(file));
    }
  }
  if (failed && failed != std::errc::no_such_file_or_directory) {
    raise<FileError>("cannot list the cache '{}': {}", folder_.string(), failed.message());
  }
  std::ranges::sort(all, std::greater<>(), [](const File& f) { return std::pair(f.used, f.path); });
  return all;
}

std::uint64_t FileCache::bytes() const {
  std::uint64_t sum = 0;
  for (const File& file : files()) {
    sum += file.bytes;
  }
  return sum;
}

std::vector<FileCache::File> FileCache::verify(const Take& check) const {
  std::vector<File> damaged;
  const auto leave = [&](File& file, const Error& error) {
    file.unread = error.message();
    log::warn("cache", "'{}' is not checked: {}", file.path.string(), error.message());
    damaged.push_back(std::move(file));
  };
  for (File& file : files()) {
    try {
      const SectionFile entry(file.path, expected());
      const std::string key = entry.unpacked(entry.one(kKeySection, "a key"));
      if (pathOf(key) != file.path) {
        raise<FileError>("it has another name than its key");
      }
      if (entry.all(static_cast<std::uint32_t>(CacheContent::Code)).empty()) {
        check(*resultOf(entry, key, CacheContent::Program));
      } else {
        static_cast<void>(resultOf(entry, key, CacheContent::Code));
      }
    } catch (const UnreadableFile& error) {
      leave(file, error);
    } catch (const OutOfMemory& error) {
      leave(file, error);
    } catch (const Error& error) {
      if (std::optional<std::string> kept = removeDamaged(file.path, error)) {
        file.kept = std::move(*kept);
        damaged.push_back(std::move(file));
      }
    }
  }
  return damaged;
}

std::size_t FileCache::clear() const {
  const std::vector<File> all = files();
  std::size_t left = 0;
  std::string why;
  for (const File& file : all) {
    if (std::string kept = removeEntry(file.path); !kept.empty()) {
      ++left;
      why = std::move(kept);
    }
  }
  if (left > 0) {
    raise<FileError>("{} of {} files of the cache '{}' cannot be removed: {}",
                     left,
                     all.size(),
                     folder_.string(),
                     why);
  }
  return all.size();
}

}  // namespace sluice
