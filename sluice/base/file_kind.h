// Finds out what a path leads to. Sluice reads and writes regular files only: a FIFO or a device
// could block a run forever, and output that is renamed into place would destroy it.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include <sys/stat.h>

namespace sluice {

/// "a folder", "a FIFO", "a character device"...
std::string_view fileKind(mode_t mode);

/// Follows links and returns the status of what the path leads to, or nullopt if nothing is there.
/// Throws FileError if this cannot be found out (a loop of links, a folder that may not be entered,
/// a path with a NUL byte). `verb` names the intended action for the message.
std::optional<struct stat> statOf(const std::filesystem::path& path, std::string_view verb);

}  // namespace sluice
