#include "sluice/base/file_kind.h"

#include <cerrno>
#include <cstring>

#include "sluice/base/error.h"

namespace sluice {

std::string_view fileKind(mode_t mode) {
  switch (mode & static_cast<mode_t>(S_IFMT)) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFCHR:
      return "a character device";
    case S_IFBLK:
      return "a block device";
    case S_IFSOCK:
      return "a socket";
    case S_IFLNK:
      return "a symbolic link";
    default:
      return "a file of an unknown kind";
  }
}

std::optional<struct stat> statOf(const std::filesystem::path& path, std::string_view verb) {
  if (path.native().find('\0') != std::string::npos) {
    raise<FileError>("cannot {} '{}': a path cannot have a NUL byte", verb, path.string());
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    return info;
  }
  if (errno == ENOENT) {
    return std::nullopt;
  }
  raise<FileError>("cannot {} '{}': {}", verb, path.string(), std::strerror(errno));
}

}  // namespace sluice
