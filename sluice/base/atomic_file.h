// Files that are there whole or not at all: written under a temporary name beside their place,
// synced, then renamed. Whoever reads the final name never sees half a file.
#pragma once

#include <filesystem>
#include <string_view>

namespace sluice {

/// Replaces or makes the file; its folder must exist. Throws FileError, and then a file that was
/// there is as before.
void writeFileAtomically(const std::filesystem::path& path, std::string_view text);

}  // namespace sluice
