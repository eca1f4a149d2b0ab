#include "sluice/base/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "sluice/base/error.h"

namespace sluice {
namespace {

/// A temporary file that is removed unless it was given its final name.
class PartialFile {
 public:
  explicit PartialFile(const std::filesystem::path& path)
      : final_(path.string()), partial_(fmt::format("{}.{}.part", final_, ::getpid())) {
    descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      fail("write");
    }
  }
  ~PartialFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
      ::unlink(partial_.c_str());
    }
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written < 0 && errno != EINTR) {
        fail("write");
      }
      text.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
    }
  }

  void commit() {
    if (::fsync(descriptor_) != 0) {
      fail("sync");
    }
    if (std::rename(partial_.c_str(), final_.c_str()) != 0) {
      fail("name");
    }
    ::close(descriptor_);
    descriptor_ = -1;
    syncFolder();
  }

 private:
  /// The new name is in the folder, and only that makes it last.
  void syncFolder() const {
    const std::filesystem::path folder = std::filesystem::path(final_).parent_path();
    const int descriptor =
        ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
      ::fsync(descriptor);  // some file systems cannot; the file itself is whole in any case
      ::close(descriptor);
    }
  }

  [[noreturn]] void fail(std::string_view what) const {
    raise<FileError>("cannot {} '{}': {}", what, final_, std::strerror(errno));
  }

  std::string final_;
  std::string partial_;
  int descriptor_ = -1;
};

}  // namespace

void writeFileAtomically(const std::filesystem::path& path, std::string_view text) {
  writeFileAtomically(path, std::span(&text, 1));
}

void writeFileAtomically(const std::filesystem::path& path,
                         std::span<const std::string_view> parts) {
  PartialFile file(path);
  for (const std::string_view part : parts) {
    file.write(part);
  }
  file.commit();
}

}  // namespace sluice
