#include "sluice/base/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "sluice/base/error.h"
#include "sluice/base/file_kind.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".sluice-";
constexpr std::string_view kPart = ".part";
constexpr unsigned kModeBits = 07777;

/// Most of a final name that a temporary one repeats: file systems allow 255 bytes.
std::string stemOf(const fs::path& path) {
  constexpr std::size_t kLongest = 180;
  return path.filename().string().substr(0, kLongest);
}

/// A name that no other writer has: of this process by its number, of its threads by the counter.
/// Processes of other machines may have the same number, so the file is made with O_EXCL as well.
std::string uniquePart(const fs::path& path) {
  static std::atomic<std::uint64_t> counter{0};
  return (path.parent_path() /
          fmt::format("{}{}{}-{}{}", stemOf(path), kMark, ::getpid(), counter.fetch_add(1), kPart))
      .string();
}

/// Whether two descriptions are of one file.
bool same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Removes a temporary file that nobody writes: its writer holds a lock while it lives.
void removeIfAbandoned(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    return;
  }
  struct stat info {};
  if (::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
      ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    ::unlink(path.c_str());
  }
  ::close(descriptor);
}

}  // namespace

fs::path outputTarget(const fs::path& path) {
  const std::optional<struct stat> found = statOf(path, "write");
  if (found && !S_ISREG(found->st_mode)) {
    raise<FileError>(
        "cannot write '{}': it is {}. Output is written under another name and then renamed, which "
        "would destroy it: give the path of a regular file",
        path.string(),
        fileKind(found->st_mode));
  }
  fs::path target = path;
  std::error_code none;
  constexpr int kMostLinks = 40;  // as many as the system follows
  for (int i = 0; fs::is_symlink(fs::symlink_status(target, none)); ++i) {
    const fs::path next = fs::read_symlink(target, none);
    if (none || i == kMostLinks) {
      raise<FileError>("cannot write '{}': its symbolic links lead nowhere", path.string());
    }
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  // The links of /proc lead to files that their text does not name.
  if (found && target != path && !statOf(target, "write")) {
    raise<FileError>("cannot write '{}': it leads to a file that has no path", path.string());
  }
  return target;
}

void requireWritable(const fs::path& path) {
  const fs::path parent = outputTarget(path).parent_path();
  const fs::path folder = parent.empty() ? "." : parent / ".";  // else a file would do
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    raise<FileError>(
        "cannot write '{}': its folder cannot be written ({}): make it, or give another path",
        path.string(),
        std::strerror(errno));
  }
}

void removeAbandonedParts(const fs::path& folder, std::string_view prefix) {
  std::error_code failed;  // then they stay for another time
  fs::directory_iterator at(folder.empty() ? "." : folder, failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(kPart) &&
        name.find(kMark) != std::string::npos) {
      removeIfAbandoned(at->path());
    }
  }
}

PartialFile::PartialFile(const fs::path& path, Name name) : watched_(name == Name::Watched) {
  const fs::path target = outputTarget(path);
  final_ = target.string();
  removeAbandonedParts(target.parent_path(), stemOf(target) + std::string(kMark));
  const std::optional<struct stat> old = statOf(target, "write");
  const unsigned mode = old ? old->st_mode & 0777U : 0666U;
  watched_ ? openWatched(mode) : openUnique(mode);
  if (old) {
    // Only the superuser can give a file away; for others it is theirs in any case.
    static_cast<void>(::fchown(descriptor_, old->st_uid, old->st_gid) == 0);
    static_cast<void>(::fchmod(descriptor_, old->st_mode & kModeBits) == 0);
  }
}

/// Between making and locking the file, one who cleans up may have taken it.
void PartialFile::openUnique(unsigned mode) {
  do {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
    partial_ = uniquePart(final_);
    descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor_ < 0 && errno != EEXIST) {
      fail("write");
    }
  } while (descriptor_ < 0 || !lockIsOurs());
}

void PartialFile::openWatched(unsigned mode) {
  partial_ = final_ + std::string(kPart);
  static_cast<void>(outputTarget(partial_));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  descriptor_ = ::open(partial_.c_str(), kFlags, mode);
  if (descriptor_ < 0) {
    fail("write");
  }
  if (!lockIsOurs() || ::ftruncate(descriptor_, 0) != 0) {
    ::close(descriptor_);
    raise<FileError>("cannot write '{}': another run is writing '{}'", final_, partial_);
  }
}

/// Locks the file; false if somebody else did, or renamed or removed it meanwhile.
bool PartialFile::lockIsOurs() const {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return false;
  }
  struct stat ours {};
  struct stat named {};
  return ::fstat(descriptor_, &ours) == 0 && ::lstat(partial_.c_str(), &named) == 0 &&
         same(ours, named);
}

PartialFile::~PartialFile() {
  if (!committed_ && !watched_) {
    ::unlink(partial_.c_str());
  }
  ::close(descriptor_);
}

void PartialFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      fail("write");
    }
    text.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
}

void PartialFile::commit() {
  if (::fsync(descriptor_) != 0) {
    fail("sync");
  }
  if (committed_) {
    return;
  }
  static_cast<void>(outputTarget(final_));  // what came there meanwhile stays
  if (std::rename(partial_.c_str(), final_.c_str()) != 0) {
    fail("name");
  }
  committed_ = true;
  syncFolder();
}

/// The new name is in the folder, and only that makes it last.
void PartialFile::syncFolder() const {
  const fs::path folder = fs::path(final_).parent_path();
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);  // some file systems cannot; the file itself is whole in any case
    ::close(descriptor);
  }
}

void PartialFile::fail(std::string_view what) const {
  raise<FileError>("cannot {} '{}': {}", what, final_, std::strerror(errno));
}

void writeFileAtomically(const fs::path& path, std::string_view text) {
  writeFileAtomically(path, std::span(&text, 1));
}

void writeFileAtomically(const fs::path& path, std::span<const std::string_view> parts) {
  PartialFile file(path);
  for (const std::string_view part : parts) {
    file.write(part);
  }
  file.commit();
}

}  // namespace sluice
