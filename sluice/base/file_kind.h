// What a path leads to. Sluice reads and writes regular files only: a FIFO or a device would block
// a run without an end, and output that is renamed into place would destroy it.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include <sys/stat.h>

namespace sluice {

/// "a folder", "a FIFO", "a character device"...
std::string_view fileKind(mode_t mode);

/// What the path leads to, links followed; nothing if there is none. Throws FileError if that
/// cannot be found out (a loop of links, a folder that may not be entered, a path with a NUL byte);
/// `verb` is what was to be done to it.
std::optional<struct stat> statOf(const std::filesystem::path& path, std::string_view verb);

}  // namespace sluice
