// Entries of the cache that a process has read ahead, because the environment asks for it
// (SLUICE_CACHE_PRELOAD): a service that makes many models then waits for the disk once, when it
// starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace sluice {

class ExecutableCache;

/// The bytes of files by their names.
using PreloadedEntries = std::map<std::filesystem::path, std::string>;

/// Entries beyond these bytes are read from the disk, as without preloading.
inline constexpr std::uint64_t kMostPreloaded = std::uint64_t{1} << 30U;

/// Whether SLUICE_CACHE_PRELOAD, or PopART's variable, asks for it. Throws InvalidArgument for a
/// value that is no answer.
bool asksForPreload();

/// Reads the entries of the folder, that which was used most recently first, the first time that it
/// is called for this folder; after that, returns what was read. Any thread may call it. Files that
/// cannot be read are left out.
std::shared_ptr<const PreloadedEntries> preloadedEntries(const ExecutableCache& cache);

}  // namespace sluice
