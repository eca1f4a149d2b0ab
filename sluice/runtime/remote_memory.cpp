#include "sluice/runtime/remote_memory.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/base/recoverable_error.h"

namespace sluice::runtime {
namespace {

[[noreturn]] void failFile(const std::string& path, std::string_view what, int error) {
  throw RecoverableError(
      RecoveryAction::DeviceReset,
      fmt::format("remote memory: {} '{}': {}; give remoteMemory a path with enough room",
                  what,
                  path,
                  error == 0 ? "the file is shorter than it was made" : std::strerror(error)));
}

}  // namespace

RemoteMemory::RemoteMemory(std::string path, Undo undo) : path_(std::move(path)) {
  if (!path_.empty()) {
    files_.emplace_back().path = path_;
    if (undo == Undo::Yes) {
      files_.emplace_back().path = path_ + ".next";
    }
  }
}

RemoteMemory::~RemoteMemory() {
  for (const File& file : files_) {
    if (file.handle >= 0) {
      ::unlink(file.path.c_str());  // while it is locked: the next owner gets a file of its own
      ::close(file.handle);
    }
  }
}

void RemoteMemory::makeRoom(File& file, std::size_t bytes) {
  if (file.handle < 0) {
    // The file is removed at the end: a device or a FIFO would be gone.
    file.path = outputTarget(file.path).string();
    const int handle = ::open(file.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (handle < 0) {
      failFile(file.path, "cannot make the file", errno);
    }
    // Not emptied before it is known that nobody else's values are in it.
    // Some file systems have no locks; there it is up to the user.
    if (::flock(handle, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(handle);
      raise<FileError>(
          "remote memory: '{}' is in use by another module, Builder or process; give each a path "
          "of its own with remoteMemory",
          file.path);
    }
    file.handle = handle;
    if (::ftruncate(handle, 0) != 0) {
      failFile(file.path, "cannot empty the file", errno);
    }
  }
  if (const int error = ::posix_fallocate(file.handle, 0, static_cast<off_t>(bytes)); error != 0) {
    failFile(file.path, fmt::format("no room for {} bytes in the file", bytes), error);
  }
}

void RemoteMemory::grow(std::size_t bytes) {
  if (bytes <= bytes_) {
    return;
  }
  if (path_.empty()) {
    // Pages are taken from the machine when they are first written, and move when it grows.
    constexpr int kAccess = PROT_READ | PROT_WRITE;
    constexpr int kKind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    pinned_.reset();
    void* made = bytes_ == 0 ? ::mmap(nullptr, bytes, kAccess, kKind, -1, 0)
                             : ::mremap(memory_.get(), bytes_, bytes, MREMAP_MAYMOVE);
    if (made == MAP_FAILED) {
      raise<OutOfMemory>("remote memory: the host has no room for {} bytes", bytes);
    }
    static_cast<void>(memory_.release());
    memory_ = {static_cast<std::byte*>(made), [bytes](std::byte* data) { ::munmap(data, bytes); }};
    view_.emplace(made, bytes);
    bytes_ = bytes;
    lock();
    return;
  }
  for (File& file : files_) {
    makeRoom(file, bytes);
  }
  bytes_ = bytes;
}

void RemoteMemory::copiedBy(device::Device& device) {
  copier_ = &device;
  lock();
}

void RemoteMemory::lock() {
  if (copier_ != nullptr && memory_ != nullptr && bytes_ > 0) {
    pinned_.reset();
    pinned_ = copier_->pin(memory_.get(), bytes_);
  }
}

void RemoteMemory::requireInside(std::size_t offset, std::size_t bytes) const {
  SLUICE_CHECK(offset <= bytes_ && bytes <= bytes_ - offset,
               "{} bytes at {} of a remote memory of {}",
               bytes,
               offset,
               bytes_);
}

const RemoteMemory::File& RemoteMemory::fileToRead(std::size_t offset, std::size_t bytes) const {
  const std::scoped_lock lock(mutex_);
  const auto found = extents_.find(offset);
  SLUICE_CHECK(found == extents_.end() || found->second.bytes == bytes,
               "{} bytes at {} of a remote memory that keeps {} there",
               bytes,
               offset,
               found->second.bytes);
  return files_[found == extents_.end() ? 0 : found->second.file];
}

const RemoteMemory::File& RemoteMemory::fileToWrite(std::size_t offset, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto [found, isNew] = extents_.try_emplace(offset, Extent{.bytes = bytes});
  Extent& extent = found->second;
  SLUICE_CHECK(extent.bytes == bytes,
               "{} bytes at {} of a remote memory that keeps {} there",
               bytes,
               offset,
               extent.bytes);
  if (!extent.written) {
    extent.file = 1 - extent.file;
    extent.written = true;
  }
  return files_[extent.file];
}

void RemoteMemory::keep() {
  const std::scoped_lock lock(mutex_);
  for (auto& [offset, extent] : extents_) {
    extent.written = false;
  }
}

void RemoteMemory::undo() {
  const std::scoped_lock lock(mutex_);
  for (auto& [offset, extent] : extents_) {
    extent.file = extent.written ? 1 - extent.file : extent.file;
    extent.written = false;
  }
}

void RemoteMemory::read(std::size_t offset, std::byte* to, std::size_t bytes) const {
  requireInside(offset, bytes);
  if (path_.empty()) {
    if (bytes > 0) {
      std::memcpy(to, memory_.get() + offset, bytes);
    }
    return;
  }
  const File& file = isUndoable() ? fileToRead(offset, bytes) : files_[0];
  readWhole(file, offset, to, bytes);
  if (!file.sums->areKept(offset, to, bytes)) {
    throw RecoverableError(
        RecoveryAction::DeviceReset,
        fmt::format("remote memory: '{}' is damaged: the {} bytes at {} are not those that were "
                    "written there",
                    file.path,
                    bytes,
                    offset));
  }
}

void RemoteMemory::readWhole(const File& file,
                             std::size_t offset,
                             std::byte* to,
                             std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::pread(file.handle, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      failFile(file.path, "cannot read", got < 0 ? errno : 0);
    }
    to += got;
    offset += static_cast<std::size_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

void RemoteMemory::write(std::size_t offset, const std::byte* from, std::size_t bytes) {
  requireInside(offset, bytes);
  if (path_.empty()) {
    if (bytes > 0) {
      std::memcpy(memory_.get() + offset, from, bytes);
    }
    return;
  }
  const File& file = isUndoable() ? fileToWrite(offset, bytes) : files_[0];
  file.sums->note(offset, from, bytes);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(file.handle, from, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      failFile(file.path, "cannot write", put < 0 ? errno : ENOSPC);
    }
    from += put;
    offset += static_cast<std::size_t>(put);
    bytes -= static_cast<std::size_t>(put);
  }
}

}  // namespace sluice::runtime
