#include "sluice/data/file.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice/base/error.h"

namespace sluice::data {
namespace {

/// Closes a file at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) {
      raise<FileError>("cannot open '{}': {}", path, std::strerror(errno));
    }
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::size_t sizeOf(const Descriptor& file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    raise<FileError>("cannot read '{}': {}", path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    raise<FileError>("cannot read '{}': it is not a plain file", path);
  }
  return static_cast<std::size_t>(info.st_size);
}

}  // namespace

std::string readFile(const std::string& path) {
  const Descriptor file(path);
  std::string content(sizeOf(file, path), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::read(file.get(), content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      raise<FileError>("cannot read '{}': {}",
                       path,
                       count == 0 ? "it became shorter meanwhile" : std::strerror(errno));
    }
    done += static_cast<std::size_t>(count);
  }
  return content;
}

MappedFile::MappedFile(const std::string& path) {
  const Descriptor file(path);
  size_ = sizeOf(file, path);
  if (size_ == 0) {
    return;  // nothing can be mapped
  }
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {  // NOLINT: the macro of the system
    raise<FileError>("cannot map '{}': {}", path, std::strerror(errno));
  }
  memory_ = {static_cast<const std::byte*>(memory),
             [memory, size = size_](const std::byte*) { ::munmap(memory, size); }};
}

std::uint64_t littleEndian(std::string_view bytes, std::size_t offset, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i > 0; --i) {
    value = (value << 8) | static_cast<unsigned char>(bytes[offset + i - 1]);
  }
  return value;
}

}  // namespace sluice::data
