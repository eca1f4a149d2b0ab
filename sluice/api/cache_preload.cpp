#include "sluice/api/cache_preload.h"

#include <mutex>

#include "sluice/api/executable_cache.h"
#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/input_file.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

constexpr const char* kVariable = "SLUICE_CACHE_PRELOAD";
constexpr std::string_view kFullPreload = "full-preload";  // PopART's word

PreloadedEntries readAll(const ExecutableCache& cache) {
  PreloadedEntries entries;
  std::uint64_t bytes = 0;
  for (const ExecutableCache::File& file : cache.files()) {
    if (bytes + file.bytes > kMostPreloaded) {
      break;
    }
    try {
      bytes += entries.emplace(file.path, readFile(file.path)).first->second.size();
    } catch (const FileError& error) {  // another process may have removed it
      log::debug("cache", "not preloaded: {}", error.message());
    }
  }
  log::info("cache",
            "{} entries of '{}' are preloaded, {} bytes",
            entries.size(),
            cache.folder().string(),
            bytes);
  return entries;
}

}  // namespace

bool asksForPreload() {
  const std::optional<std::string> value = environmentValue(kVariable, "POPART_PRELOAD_POPEF");
  return value && (*value == kFullPreload || isOn(*value, kVariable));
}

std::shared_ptr<const PreloadedEntries> preloadedEntries(const ExecutableCache& cache) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::shared_ptr<const PreloadedEntries>> byFolder;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<const PreloadedEntries>& entries = byFolder[cache.folder()];
  if (entries == nullptr) {
    try {
      entries = std::make_shared<PreloadedEntries>(readAll(cache));
    } catch (const FileError& error) {
      log::warn("cache", "nothing is preloaded: {}", error.message());
      return std::make_shared<PreloadedEntries>();
    }
  }
  return entries;
}

}  // namespace sluice
