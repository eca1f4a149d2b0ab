// Files that are there whole or not at all: written under a temporary name beside their place,
// synced, then renamed, and the folder synced. Whoever reads the final name never sees half a file,
// and a file that was written stays after a loss of power.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace sluice {

/// Replaces or makes the file; its folder must exist. Throws FileError, and then a file that was
/// there is as before.
void writeFileAtomically(const std::filesystem::path& path, std::string_view text);
/// The same of several parts, one behind the other.
void writeFileAtomically(const std::filesystem::path& path,
                         std::span<const std::string_view> parts);

}  // namespace sluice
