#include "sluice/base/input_file.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

#include "sluice/base/error.h"
#include "sluice/base/file_kind.h"

namespace sluice {
namespace {

void requireRegular(const struct stat& info, const std::string& path) {
  if (!S_ISREG(info.st_mode)) {
    raise<FileError>(
        "cannot read '{}': it is {}, expected a regular file", path, fileKind(info.st_mode));
  }
}

std::uint64_t memoryOfHost() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : path_(path.string()) {
  const std::optional<struct stat> named = statOf(path, "read");
  if (!named) {
    raise<FileError>("cannot open '{}': {}", path_, std::strerror(ENOENT));
  }
  requireRegular(*named, path_);  // opening a device can already change it
  // Without waiting: a FIFO may have come there meanwhile.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor_ < 0) {
    raise<UnreadableFile>("cannot open '{}': {}", path_, std::strerror(errno));
  }
  try {
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0) {
      raise<UnreadableFile>("cannot read '{}': {}", path_, std::strerror(errno));
    }
    requireRegular(info, path_);
    size_ = static_cast<std::uint64_t>(info.st_size);
    requireSize();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::requireSize() const {
  char first = 0;
  if (size_ == 0 && ::pread(descriptor_, &first, 1, 0) > 0) {
    raise<FileError>(
        "cannot read '{}': its size is 0 but it has content, as files of /proc have; copy it to a "
        "regular file first",
        path_);
  }
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      raise<UnreadableFile>("cannot read '{}': {}", path_, std::strerror(errno));
    }
    if (count == 0) {
      raise<FileError>("cannot read '{}': it ends too early, it became shorter meanwhile", path_);
    }
    offset += static_cast<std::uint64_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
}

std::string InputFile::content() const {
  std::string bytes;
  try {
    if (size_ > memoryOfHost()) {  // a sparse file can have any size
      throw std::bad_alloc();
    }
    bytes.resize(size_);
  } catch (const std::exception&) {  // bad_alloc, length_error
    raise<OutOfMemory>("cannot read '{}': the host has no memory for its {} bytes", path_, size_);
  }
  read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string readFile(const std::filesystem::path& path, std::uint64_t limit) {
  const InputFile file(path);
  if (file.size() > limit) {
    raise<FileError>(
        "cannot read '{}': it has {} bytes, the limit is {}", path.string(), file.size(), limit);
  }
  return file.content();
}

}  // namespace sluice
